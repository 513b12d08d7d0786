"""A warp-specialised product through the copy hardware, barriers and warpgroups' products: right whatever the seed,
and wrong in no way that goes unseen."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from loomgen.emulator import EmulatedKernel, EmulatorFault, EmulatorOptions, EmulatorReport, FaultKind
from loomgen.emulator.arguments import Value
from loomgen.target import target_named
from loomgen.toolchain.build import COMMON_FLAGS
from loomgen.toolchain.find import NVCC, MissingTool, find_tool
from tests.emulator.support import (
    INCLUDE,
    KERNELS,
    bf16_bits,
    bf16_values,
    box_map,
    compiled,
    kernel_file,
    ordered_product,
    rounded_bf16_bits,
)

BITS = npt.NDArray[np.uint16]

ROWS, COLS, DEPTH = 128, 128, 192
RING_BYTES, BARRIER_BYTES = 4 * 128 * 64 * 2, 32
SHARED_BYTES = RING_BYTES + ROWS * COLS * 2 + BARRIER_BYTES
SOURCE = KERNELS / "hopper_matmul.cu"
DEFAULTS = EmulatorOptions()
SIGNATURE = "m:a_map m:b_map m:c_map i:depth"


def operands() -> tuple[BITS, BITS]:
    rng = np.random.default_rng(1)
    return bf16_bits(rng.standard_normal((ROWS, DEPTH))), bf16_bits(rng.standard_normal((COLS, DEPTH)))


def product() -> BITS:
    a, b = operands()
    return rounded_bf16_bits(ordered_product(bf16_values(a), bf16_values(b).T, np.zeros((ROWS, COLS), np.float32), 16))


def launch(
    kernel: EmulatedKernel, options: EmulatorOptions = DEFAULTS, *, b_swizzle: int = 3
) -> tuple[BITS, EmulatorReport]:
    a, b = operands()
    c = np.zeros((ROWS, COLS), np.uint16)
    arguments: dict[str, Value] = {
        "a_map": box_map("a", a, "in", rows=128, cols=64),
        "b_map": box_map("b", b, "in", rows=128, cols=64, swizzle=b_swizzle),
        "c_map": box_map("c", c, "out", rows=64, cols=64),
        "depth": DEPTH,
    }
    return c, kernel.launch(arguments, grid=1, block=384, shared_bytes=SHARED_BYTES, options=options)


def matmul() -> EmulatedKernel:
    return kernel_file("hopper_matmul.cu", "hopper_matmul", SIGNATURE)


def edited(folder: Path, old: str, new: str) -> EmulatedKernel:
    """The kernel with one text replaced."""
    text = SOURCE.read_text()
    assert text.count(old) == 1, old
    path = folder / "hopper_matmul.cu"
    path.write_text(text.replace(old, new))
    return compiled(path, "hopper_matmul", SIGNATURE)


def fault_of(kernel: EmulatedKernel, options: EmulatorOptions = DEFAULTS, b_swizzle: int = 3) -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        launch(kernel, options, b_swizzle=b_swizzle)
    return caught.value


def line_of(text: str) -> int:
    """The number of the only line with ``text``."""
    lines = [number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if text in line]
    assert len(lines) == 1, text
    return lines[0]


@pytest.mark.parametrize("completion", ["late", "random"])
def test_the_documented_arithmetic_bit_for_bit_whatever_the_seed(completion: str) -> None:
    kernel, expected = matmul(), product()
    for seed in range(20):
        options = EmulatorOptions(seed=seed, completion="late" if completion == "late" else "random")
        c, report = launch(kernel, options)
        np.testing.assert_array_equal(c, expected)
        assert report.unwritten == {}


def test_exact_counts() -> None:
    """Barriers and copies count once a thread, fences and waits of products once a warp, products and registers once a
    warpgroup."""
    _, report = launch(matmul())
    total: dict[str, int] = {}
    for line in report.primitives.values():
        for name, n in line.items():
            total[name] = total.get(name, 0) + n
    steps = DEPTH // 64
    assert total == {
        "mbarrier_init": 4,
        "mbarrier_init_fence": 1,
        "sync_block": 1,
        "release_registers": 1,
        "claim_registers": 2,
        "mbarrier_wait": steps + steps * 256,
        "mbarrier_expect_bytes": steps,
        "tma_load": 2 * steps,
        "wgmma_fence": 8 * steps,
        "wgmma": 2 * 4 * steps,
        "wgmma_commit": 8 * steps,
        "wgmma_wait": 8 * steps,
        "mbarrier_arrive": 2 * steps,
        "stmatrix": 8 * 8,
        "fence_proxy_async": 256,
        "sync_named": 2,
        "tma_store": 4,
        "tma_store_commit": 2,
        "tma_store_wait": 2,
    }
    assert report.conflicts == 0


DELETED = [
    ("mbarrier_wait(full", {FaultKind.RACE}),
    ("mbarrier_wait(empty", {FaultKind.RACE, FaultKind.BAD_BARRIER}),
    ("mbarrier_init_fence", {FaultKind.BAD_BARRIER}),
    ("mbarrier_init(full", {FaultKind.BAD_BARRIER}),
    ("mbarrier_arrive(empty", {FaultKind.DEADLOCK}),
    ("mbarrier_expect_bytes", {FaultKind.DEADLOCK}),
    ("sync_block", {FaultKind.RACE, FaultKind.BAD_BARRIER}),
    ("wgmma_fence", {FaultKind.ACCUMULATOR}),
    ("wgmma_commit", {FaultKind.RACE}),
    ("wgmma_wait<0>(acc)", {FaultKind.RACE}),
    ("fence_proxy_async", {FaultKind.PROXY}),
    ("sync_named(1, 128)", {FaultKind.RACE, FaultKind.UNINITIALISED, FaultKind.PROXY}),
    ("tma_store_commit", {FaultKind.PENDING_COPY}),
    ("tma_store_wait<0>", {FaultKind.PENDING_COPY}),
    ("release_registers", {FaultKind.DEADLOCK}),
]


@pytest.mark.parametrize(("text", "kinds"), DELETED, ids=[text for text, _ in DELETED])
def test_each_synchronisation_is_needed(text: str, kinds: set[FaultKind]) -> None:
    kernel, line = matmul(), line_of(text)
    for seed in range(5):
        for completion in ("late", "random"):
            options = EmulatorOptions(
                seed=seed, completion="late" if completion == "late" else "random", disabled_line=line
            )
            assert fault_of(kernel, options).kind in kinds


PLANTED = [
    ("mbarrier_wait(full.at(slot), step / 2 % 2)", "mbarrier_wait(full.at(slot), (step / 2 + 1) % 2)", FaultKind.RACE),
    ("mbarrier_wait(empty.at(slot), (step / 2 + 1) % 2)", "mbarrier_wait(empty.at(slot), 0)", FaultKind.DEADLOCK),
    ("a_ring.kBytes + b_ring.kBytes);", "a_ring.kBytes);", FaultKind.BAD_BARRIER),
    ("a_ring.kBytes + b_ring.kBytes);", "2 * a_ring.kBytes + b_ring.kBytes);", FaultKind.DEADLOCK),
    (
        "wgmma_operand(b_ring.at_slot(slot), 0, k)",
        "wgmma_operand(SharedTile<bf16, 128, 32, 32, 2>{b_ring.at_slot(slot).base}, 0, k % 32)",
        FaultKind.LAYOUT,
    ),
    ("mbarrier_init(empty.at(slot), 2)", "mbarrier_init(empty.at(slot), 1)", FaultKind.RACE),
    ("tma_store(c_map, group * 64, panel * 64, c_tile)", "tma_store(a_map, 0, 0, a_ring)", FaultKind.READ_ONLY),
    ("tma_store(c_map, group * 64, panel", "tma_store(c_map, 0, panel", FaultKind.RACE),
    ("mbarrier_wait(full", "if (lane_index() == 0) mbarrier_wait(full", FaultKind.RACE),
    ("wgmma_wait<0>", "wgmma_wait<1>", FaultKind.RACE),
]


@pytest.mark.parametrize(("old", "new", "kind"), PLANTED, ids=[new for _, new, _ in PLANTED])
def test_planted_faults(tmp_path: Path, old: str, new: str, kind: FaultKind) -> None:
    kernel = edited(tmp_path, old, new)
    for seed in range(5):
        assert fault_of(kernel, EmulatorOptions(seed=seed)).kind is kind


def test_a_map_with_another_swizzle() -> None:
    fault = fault_of(matmul(), b_swizzle=0)
    assert (fault.kind, fault.line) == (FaultKind.BAD_BOX, line_of("tma_load(b_ring"))
    assert fault.message == (
        "a tile of 128 x 64 elements of 2 bytes, swizzle 3, for a box of 128 x 64 elements of 2 bytes, swizzle 0"
    )


def test_a_deadlock_names_barrier_and_parity() -> None:
    fault = fault_of(matmul(), EmulatorOptions(disabled_line=line_of("mbarrier_arrive(empty")))
    empty = RING_BYTES + ROWS * COLS * 2 + 16
    assert fault.line == line_of("mbarrier_wait(empty")
    assert fault.message.startswith(
        f"the barrier at shared byte {empty}, parity 0: phase 0 lacks 2 of 2 arrivals and 0 of 0 bytes; "
    )


def test_nvcc_compiles_it_without_a_warning(tmp_path: Path) -> None:
    """ptxas tells where products wait for one another, or registers are not given away."""
    try:
        nvcc = find_tool(NVCC)
    except MissingTool as missing:
        pytest.skip(str(missing))
    command = [str(nvcc), *COMMON_FLAGS, target_named("sm_90a").gencode, f"-I{INCLUDE}", "--cubin"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "k.cubin"), str(SOURCE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = done.stdout + done.stderr
    assert "warning" not in report.lower()
    assert "C75" not in report
    assert "0 bytes spill stores" in report
