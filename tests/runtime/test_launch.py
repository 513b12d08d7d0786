"""Launches without a GPU: what reaches the driver, for every kernel of every registry."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from loomgen.errors import LoomgenError
from loomgen.registry import KernelEntry, load
from loomgen.runtime.bind import Value, bind
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import DriverError
from loomgen.runtime.kernels import DeviceKernels, UnsupportedDevice, target_of
from loomgen.runtime.launch import LaunchPlan, PreparedLaunch, prepare_plan
from loomgen.runtime.parameters import ParameterBlock, fields
from loomgen.runtime.resident import ResidentTables, upload
from loomgen.runtime.tables import window_tables
from loomgen.target import SM_90A, SM_100A, SM_103A, TARGETS, Target
from tests.runtime.fake_cubins import NamesAsCubins
from tests.runtime.fake_driver import FakeDriver
from tests.runtime.tensors import SIZES, blocks_of, c_structure, parameter_bytes, sizes_of, tensors_for

KERNELS = {target.name: load(target.name).kernels for target in TARGETS}
HOPPER = KERNELS["sm_90a"]
CHAIN = tuple(
    next(kernel for kernel in HOPPER if kernel.name == name)
    for name in (
        "prep__c64_k128_bf16_f32__base",
        "wy__c64_k128_bf16__base",
        "fwd_h__c64_k128_v128_bf16__r32k2",
        "fwd_o__c64_k128_v128_bf16__base",
    )
)
FWD_H = CHAIN[2]


SIZES_OF_PARAMETERS = {kernel.symbol: sizes_of(kernel) for kernels in KERNELS.values() for kernel in kernels}


def device_kernels(driver: FakeDriver, device: int = 0, store: CubinStore | None = None) -> DeviceKernels:
    return DeviceKernels(device, driver, store or NamesAsCubins())


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver(SIZES_OF_PARAMETERS)


def tables() -> ResidentTables:
    """Chunks of 1, 2 and 2 tokens of two sequences: the sizes of tests.runtime.tensors."""
    return upload(window_tables([1, 4], 2).by_name(), torch.device("cpu"))


def chain_tensors() -> dict[str, Value]:
    """What the forward is given, but its tables."""
    given = tensors_for(*CHAIN)
    return {name: value for name, value in given.items() if name not in tables().tensors}


def launch(kernels: DeviceKernels, kernel: KernelEntry, given: Mapping[str, Value]) -> None:
    PreparedLaunch(bind(kernel, given), kernels).launch(stream=0)


def addresses(plan: LaunchPlan, given: Mapping[str, Value]) -> list[int]:
    tensors = [given[name] for name in plan.names]
    return [tensor.data_ptr() for tensor in tensors if isinstance(tensor, Tensor)]


@pytest.mark.parametrize("kernel", HOPPER, ids=lambda kernel: str(kernel.name))
def test_every_registry_kernel_is_launched_as_its_entry_says(kernel: KernelEntry, driver: FakeDriver) -> None:
    given = tensors_for(kernel)
    launch(device_kernels(driver), kernel, given)
    (found,) = driver.launches
    assert (found.symbol, found.blocks, found.threads) == (kernel.symbol, blocks_of(kernel), kernel.launch.threads)
    assert found.shared_bytes == found.allowed_shared_bytes == kernel.launch.dynamic_shared_bytes
    assert found.parameters == parameter_bytes(kernel, given)


@pytest.mark.parametrize("kernel", HOPPER, ids=lambda kernel: str(kernel.name))
def test_the_block_is_laid_out_as_c_lays_out_a_struct(kernel: KernelEntry) -> None:
    structure = c_structure(kernel)
    places, n_bytes = fields(kernel.arguments)
    assert [place.offset for place in places] == [getattr(structure, place.name).offset for place in places]
    assert n_bytes <= ctypes.sizeof(structure) < n_bytes + 8
    given = tensors_for(kernel)
    values = {a.name: v.data_ptr() if isinstance(v, Tensor) else v for a, v in bind(kernel, given).values}
    maps = {a.name: 0 for a in kernel.arguments if a.kind == "tensor_map"}
    numbers = {name: 0 if value is None else value for name, value in values.items()}
    block = ParameterBlock(kernel.arguments, numbers, maps)
    expectations = zip(kernel.arguments, parameter_bytes(kernel, given), strict=True)
    for place, expected in zip(places, (e for a, e in expectations if a.name not in maps), strict=True):
        assert bytes(block)[place.offset : place.offset + len(expected)] == expected


def test_the_bytes_of_a_block() -> None:
    """A bool before a float leaves three bytes of padding, an i32 before an i64 four."""
    arguments = [
        a for kernel in CHAIN for a in kernel.arguments if a.name in ("kn", "H", "v_stride0", "normalise", "eps")
    ]
    chosen = {a.name: a for a in arguments}
    order = [chosen[name] for name in ("kn", "H", "v_stride0", "normalise", "eps")]
    block = ParameterBlock(order, {"kn": 0x7F0102030405, "H": 2, "v_stride0": -1, "normalise": True, "eps": 1.0})
    assert bytes(block).hex(" ") == (
        "05 04 03 02 01 7f 00 00 02 00 00 00 00 00 00 00 ff ff ff ff ff ff ff ff 01 00 00 00 00 00 80 3f"
    )
    block.slots["H"].value = 3
    assert bytes(block)[8:12] == b"\3\0\0\0"


def test_a_null_pointer_is_zero_and_its_strides_too(driver: FakeDriver) -> None:
    given = {**tensors_for(FWD_H), "h0": None, "ht": None}
    prepared = PreparedLaunch(bind(FWD_H, given), device_kernels(driver))
    assert "h0" not in prepared.pointers
    assert "h" in prepared.pointers
    prepared.launch(stream=7)
    assert driver.launches[0].parameters == parameter_bytes(FWD_H, given)
    assert driver.launches[0].stream == 7


def test_a_plan_patches_addresses_and_nothing_else(driver: FakeDriver) -> None:
    first, second = chain_tensors(), chain_tensors()
    held = tables()
    plan = prepare_plan(device_kernels(driver), CHAIN, first, held)
    assert set(plan.names) == {name for name, value in first.items() if isinstance(value, Tensor)}
    driver.stream = 42
    for given in (first, second, first):
        plan.run(addresses(plan, given))
    assert [launch.symbol for launch in driver.launches] == 3 * [kernel.symbol for kernel in CHAIN]
    assert {launch.stream for launch in driver.launches} == {42}
    for i, given in enumerate((first, second, first)):
        expected = [parameter_bytes(kernel, {**given, **held.tensors}) for kernel in CHAIN]
        assert [launch.parameters for launch in driver.launches[4 * i : 4 * i + 4]] == expected


def test_everything_of_a_plan_is_built_at_once_and_loaded_once(driver: FakeDriver) -> None:
    store = NamesAsCubins()
    kernels = device_kernels(driver, store=store)
    prepare_plan(kernels, CHAIN, chain_tensors(), tables())
    prepare_plan(kernels, CHAIN, chain_tensors(), tables())
    launch(kernels, FWD_H, tensors_for(FWD_H))
    assert store.asked == [("sm_90a", tuple(kernel.name for kernel in CHAIN))]
    assert driver.loads == [(0, kernel.name, kernel.name.encode()) for kernel in CHAIN]


def test_each_device_has_its_modules_its_stream_and_is_current_for_its_launches(driver: FakeDriver) -> None:
    plans = [prepare_plan(device_kernels(driver, device), CHAIN, chain_tensors(), tables()) for device in (0, 1)]
    for plan in (plans[1], plans[0], plans[1]):
        plan.run(addresses(plan, chain_tensors()))
    found = [(launch.device, launch.current_device, launch.stream) for launch in driver.launches[::4]]
    assert found == [(1, 1, 1000), (0, 0, 0), (1, 1, 1000)]
    assert driver.current == 0
    assert [device for device, _, _ in driver.loads] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_no_blocks_are_no_launch(driver: FakeDriver) -> None:
    kernel = CHAIN[3]
    launch(device_kernels(driver), kernel, tensors_for(kernel, sizes={**SIZES, "T": 0, "NC": 0}))
    assert driver.launches == []


def test_a_grid_past_the_limit_is_refused(driver: FakeDriver) -> None:
    call = replace(bind(FWD_H, tensors_for(FWD_H)), blocks=2**31)
    with pytest.raises(LoomgenError, match=r"fwd_h__.*r32k2: 2147483648 blocks, and a launch has at most 2147483647"):
        PreparedLaunch(call, device_kernels(driver))
    PreparedLaunch(replace(call, blocks=2**31 - 1), device_kernels(driver))


def test_a_wrong_argument_is_refused_before_anything_is_built(driver: FakeDriver) -> None:
    store = NamesAsCubins()
    with pytest.raises(ValueError, match=r"^v: shape \[5, 4, 64\], expected"):
        prepare_plan(
            device_kernels(driver, store=store),
            CHAIN,
            {**chain_tensors(), "v": torch.zeros(5, 4, 64).bfloat16()},
            tables(),
        )
    assert (store.asked, driver.loads) == ([], [])


def test_a_graph_may_record_a_plan_but_not_make_one(driver: FakeDriver) -> None:
    kernels = device_kernels(driver)
    plan = prepare_plan(kernels, CHAIN, chain_tensors(), tables())
    plan.run(addresses(plan, chain_tensors()))
    assert not plan.captured
    driver.is_capturing = True
    plan.run(addresses(plan, chain_tensors()))
    assert plan.captured
    with pytest.raises(LoomgenError, match="make it once before the capture"):
        prepare_plan(kernels, CHAIN, chain_tensors(), tables())
    driver.is_capturing = False
    plan.run(addresses(plan, chain_tensors()))
    assert plan.captured


def test_threads_that_share_a_plan_do_not_mix_their_addresses(driver: FakeDriver) -> None:
    plan = prepare_plan(device_kernels(driver), CHAIN, chain_tensors(), tables())
    n_runs = 100

    def run(base: int) -> None:
        for _ in range(n_runs):
            plan.run([base] * len(plan.names))

    threads = [threading.Thread(target=run, args=(base,)) for base in (0x1000, 0x2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bases = [{launch.parameters[0] for launch in driver.launches[4 * i : 4 * i + 4]} for i in range(2 * n_runs)]
    assert [len(base) for base in bases] == [1] * (2 * n_runs)


@pytest.mark.parametrize(
    ("capability", "target"), [((9, 0), SM_90A), ((10, 0), SM_100A), ((10, 3), SM_103A)], ids=["hopper", "b200", "b300"]
)
def test_the_target_of_a_gpu(capability: tuple[int, int], target: Target) -> None:
    assert target_of(capability, 0) is target


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (9, 1), (12, 0), (10, 1)])
def test_a_gpu_without_kernels_is_refused(capability: tuple[int, int], driver: FakeDriver) -> None:
    driver.capabilities = {3: capability}
    major, minor = capability
    message = (
        rf"cuda:3 has compute capability {major}\.{minor}, and there are kernels for sm_90a, sm_100a, sm_103a alone"
    )
    with pytest.raises(UnsupportedDevice, match=message):
        device_kernels(driver, 3)


def test_a_cubin_that_the_driver_refuses(driver: FakeDriver) -> None:
    driver.refuses = "load"
    with pytest.raises(DriverError, match=rf"cuModuleLoadData of {FWD_H.name}: CUDA_ERROR_INVALID_IMAGE"):
        launch(device_kernels(driver), FWD_H, tensors_for(FWD_H))


def test_uploaded_tables_are_the_tables() -> None:
    expected = window_tables([0, 15, 200, 0, 64], 64).by_name()
    held = upload(window_tables([0, 15, 200, 0, 64], 64).by_name(), torch.device("cpu"))
    assert {name: x.tolist() for name, x in held.tensors.items()} == {name: x.tolist() for name, x in expected.items()}
    held.used_on(0)


def test_a_map_follows_its_tensor(driver: FakeDriver) -> None:
    """Of the tensors that a kernel copies by boxes a plan encodes the map again where the address is another."""
    kernel = next(each for each in HOPPER if each.stage == "matmul_tma")
    given = tensors_for(kernel)
    plan = prepare_plan(device_kernels(driver), [kernel], given, tables())
    assert set(plan.names) == {"a", "b", "out"}
    other = {name: value.clone() if isinstance(value, Tensor) else value for name, value in given.items()}
    for tensors in (given, other):
        plan.run(addresses(plan, tensors))
        assert driver.launches[-1].parameters == parameter_bytes(kernel, tensors)
