"""The backward's path on a GPU without a GPU: launches reach a driver that emulates them, on CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from loomgen.errors import LoomgenError
from loomgen.ops.arguments import Arguments
from loomgen.ops.autograd import Runner, differentiable
from loomgen.ops.backward import BackwardCall, backward
from loomgen.ops.batch import bounded_batch, known_batch
from loomgen.ops.checks import checked_lengths
from loomgen.ops.device import DeviceForward
from loomgen.ops.device_backward import DeviceBackward
from loomgen.ops.dispatch_backward import GATE_GRADIENTS, STAGES
from loomgen.ops.forward import forward
from loomgen.ops.library import emulated_library
from loomgen.ops.packed import call_sizes
from loomgen.ops.workspace import Save
from loomgen.runtime.kernels import DeviceKernels
from loomgen.verify import OpCase
from tests.ops.call import offsets
from tests.ops.emulating_driver import EmulatingDriver, parameter_sizes
from tests.ops.gradients import Gradients, cotangents, equal, leaves, pulled
from tests.ops.test_device import RAW, SMALL, arguments, changed, misaligned
from tests.runtime.fake_cubins import NamesAsCubins
from tests.runtime.fake_driver import FakeDriver


@dataclass
class Device:
    """Both directions on one GPU that is not there; ``tells_plans``: a backward is told its forward's plan."""

    driver: FakeDriver
    tells_plans: bool = True
    forward: DeviceForward = field(init=False)
    backward: DeviceBackward = field(init=False)

    def __post_init__(self) -> None:
        kernels = DeviceKernels(0, self.driver, NamesAsCubins())
        self.forward, self.backward = DeviceForward(kernels, 8), DeviceBackward(kernels, 8)

    @property
    def runner(self) -> Runner:
        run = self.backward.run
        return Runner(forward=self.forward.run, backward=run if self.tells_plans else lambda call, _: run(call))

    @property
    def n_plans(self) -> int:
        return len(self.backward._plans)


def emulator(call: Arguments) -> Runner:
    library, lengths = emulated_library(), checked_lengths(call, None, False)
    return Runner(
        forward=lambda call, save: forward(call, lengths, library, save=save),
        backward=lambda call, _: backward(call, library),
    )


def gpu_for(call: Arguments) -> Device:
    """One that runs calls of the dims of ``call``."""
    if call.cu_seqlens is not None and call.cu_seqlens_cpu is None:
        batch = bounded_batch(call.q.shape[1], len(call.cu_seqlens) - 1)
    else:
        batch = known_batch(checked_lengths(call, None, False))
    return Device(EmulatingDriver(dims=call_sizes(call, batch.n_sequences, batch.n_chunks)))


def derived(runner: Runner, call: Arguments, of: tuple[Tensor | None, ...], save: Save = "minimal") -> Gradients:
    wanted = leaves(call._asdict())
    return pulled(differentiable(runner, changed(call, **wanted), save), wanted, of)


def tokens_first(call: Arguments) -> Arguments:
    """Batch rows lie along the tokens, so that no kernel can read them where they are."""
    names = ("q", "k", "v", "g", "beta")
    return changed(call, **{name: getattr(call, name).transpose(0, 1).contiguous().transpose(0, 1) for name in names})


BATCH = replace(SMALL, lengths=(5, 5), packed=False)
CALLS: dict[str, tuple[OpCase, dict[str, Any]]] = {
    "packed": (SMALL, {}),
    "views": (replace(SMALL, views=True), {}),
    "a batch": (BATCH, {}),
    "values first": (replace(SMALL, state_v_first=True), {}),
    "no gate": (replace(SMALL, gates="none"), {}),
    "no initial state": (SMALL, {"initial_state": None}),
    "slack": (replace(SMALL, slack=4), {}),
    "empty sequences": (replace(SMALL, lengths=(0, 66, 0)), {}),
    "f16, beta in bf16, norm off": (
        replace(SMALL, dtype=torch.float16, step=torch.bfloat16, normalise=False),
        {"scale": 0.5},
    ),
    "a misaligned v": (SMALL, {"v": misaligned(arguments().v)}),
    "raw gates and steps": (RAW, {}),
    "raw gates without a bias": (replace(RAW, raw_steps=None, negative=False, bias=False), {}),
    "raw steps, views": (replace(RAW, raw_gates=None, views=True), {}),
    "raw gates in f32, slack": (replace(RAW, raw_gates=torch.float32, slack=4), {}),
    "parameters with gaps": (RAW, {"A_log": torch.ones(4)[::2], "dt_bias": torch.ones(6)[::3]}),
}


def checked(call: Arguments, of: tuple[Tensor, ...], save: Save) -> None:
    """Twice with one plan, and with the bits of the emulated operator."""
    on, expected = gpu_for(call), derived(emulator(call), call, of, save)
    assert all(x is not None and x.isfinite().all() for x in expected.values())
    for _ in range(2):
        assert equal(derived(on.runner, call, of, save), expected)
    assert on.n_plans == 1


@pytest.mark.parametrize("save", ["minimal", "states"])
@pytest.mark.parametrize("name", CALLS)
def test_the_bits_are_those_of_the_emulated_operator(name: str, save: Save) -> None:
    case, changes = CALLS[name]
    checked(arguments(case, **changes), cotangents(case), save)


@pytest.mark.parametrize("case", [BATCH, replace(RAW, lengths=(5, 5), packed=False)], ids=["gates", "raw gates"])
def test_batch_rows_along_the_tokens_are_copied(case: OpCase) -> None:
    do, dht = cotangents(case)
    checked(tokens_first(arguments(case)), (do.transpose(0, 1).contiguous().transpose(0, 1), dht), "minimal")


def stretched(do: Tensor, dht: Tensor) -> tuple[Tensor, Tensor]:
    """Of stride 0, as the gradients of a sum are."""
    return do[:, :1, :1, :1].expand_as(do), dht[:1, :1, :1, :1].expand_as(dht)


def turned(do: Tensor, dht: Tensor) -> tuple[Tensor, Tensor]:
    return do.transpose(1, 2).contiguous().transpose(1, 2), dht.mT.contiguous().mT


@pytest.mark.parametrize("view", [stretched, turned, lambda do, dht: (misaligned(do), dht)])
def test_gradients_of_results_may_lie_anyhow(view: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
    checked(arguments(), view(*cotangents(SMALL)), "minimal")


def test_one_graph_may_be_pulled_by_gradients_that_lie_differently() -> None:
    """Each layout has its plan, and each call its bits."""
    call, (do, dht) = arguments(), cotangents(SMALL)
    other_do, other_dht = turned(do, dht)
    layouts = [(do, dht), (other_do, dht), (do, other_dht), (misaligned(do), dht), (do, None), (do, dht)]
    on, expected = gpu_for(call), derived(emulator(call), call, (do, dht))
    wanted = leaves(call._asdict())
    results = differentiable(on.runner, changed(call, **wanted), "minimal")
    for of in layouts:
        without_dht = of[1] is None
        found = pulled(results, wanted, of, retain_graph=True)
        assert equal(found, derived(emulator(call), call, of) if without_dht else expected)
    assert on.n_plans == 5


def test_which_gradients_are_asked_for_decides_a_plan() -> None:
    call, of = arguments(), cotangents(SMALL)
    on, every = gpu_for(call), derived(emulator(call), call, of)
    for names in (("v",), ("initial_state",), ("q", "initial_state"), ("k",)):
        wanted = {name: x for name, x in leaves(call._asdict()).items() if name in names}
        results = differentiable(on.runner, changed(call, **wanted), "minimal")
        assert equal(pulled(results, wanted, of), {name: every[name] for name in names})
    assert on.n_plans == 3


def with_gaps(x: Tensor) -> Tensor:
    return torch.stack([x, x], dim=-1)[..., 0]


def heads_first(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


MOVED: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("v", misaligned),
    ("v", heads_first),
    ("g", heads_first),
    ("beta", heads_first),
    ("initial_state", lambda x: x.mT.contiguous().mT),
    ("A_log", with_gaps),
    ("dt_bias", with_gaps),
]


@pytest.mark.parametrize(("name", "moved"), MOVED)
def test_what_autograd_saved_may_come_back_elsewhere(name: str, moved: Callable[[Tensor], Tensor]) -> None:
    """As hooks leave it that kept it in another memory: a plan of the same forward does not fit it."""
    call, of = arguments(RAW), cotangents(RAW)
    on, address = gpu_for(call), getattr(call, name).data_ptr()
    expected = derived(on.runner, call, of)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: moved(x) if x.data_ptr() == address else x):
        assert equal(derived(on.runner, call, of), expected)
    assert on.n_plans == 2


@pytest.mark.parametrize("moved", [misaligned, with_gaps])
def test_what_the_forward_left_may_come_back_elsewhere(moved: Callable[[Tensor], Tensor]) -> None:
    call, of = arguments(RAW), cotangents(RAW)
    on = gpu_for(call)
    expected = derived(on.runner, call, of)
    came: list[Tensor] = []

    def brought(x: Tensor) -> Tensor:
        if x.dtype is not torch.uint8:
            return x
        came.append(moved(x))
        return came[-1]

    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, brought):
        assert equal(derived(on.runner, call, of), expected)
        assert equal(derived(emulator(call), call, of), expected)
    assert len(came) == 2 and on.n_plans == 1


@pytest.mark.parametrize("which", [0, 1])
def test_a_result_that_is_not_used_has_no_gradient(which: int) -> None:
    call = arguments()
    do, dht = cotangents(SMALL)
    of = (None, dht) if which == 0 else (do, None)
    assert equal(derived(gpu_for(call).runner, call, of), derived(emulator(call), call, of))


ON_DEVICE = {
    "two sequences": SMALL,
    "slack": replace(SMALL, lengths=(3, 64), slack=70),
    "no token in any sequence": replace(SMALL, lengths=(0, 0), slack=3),
    "empty sequences": replace(SMALL, lengths=(0, 66, 0)),
    "raw gates and steps, slack": replace(RAW, lengths=(3, 64), slack=70),
}


@pytest.mark.parametrize("save", ["minimal", "states"])
@pytest.mark.parametrize("name", ON_DEVICE)
def test_lengths_that_only_the_gpu_knows_give_the_same_bits(name: str, save: Save) -> None:
    """Of a second call of their kind, whose plan was made for other lengths."""
    case = ON_DEVICE[name]
    call, of = arguments(case, cu_seqlens_cpu=None), cotangents(case)
    on = gpu_for(call)
    assert call.cu_seqlens is not None
    derived(on.runner, changed(call, cu_seqlens=torch.zeros_like(call.cu_seqlens)), of, save)
    assert equal(derived(on.runner, call, of, save), derived(emulator(call), call, of, save))
    assert on.n_plans == 1


def test_tables_that_the_gpu_made_are_kept_for_the_backward() -> None:
    case = replace(SMALL, lengths=(3, 64), slack=70)
    call = arguments(case, cu_seqlens_cpu=None)
    on = gpu_for(call)
    derived(on.runner, call, cotangents(case))
    assert [launch.symbol.split("__")[0] for launch in on.driver.launches].count("meta") == 1


@pytest.fixture(params=[True, False], ids=["plans are told", "plans are not told"])
def device(request: pytest.FixtureRequest) -> Device:
    """One whose launches do nothing."""
    return Device(FakeDriver(parameter_sizes(), {0: (10, 0)}), tells_plans=request.param)


def ran(on: Device, call: Arguments | None = None, save: Save = "minimal", **changes: Any) -> None:
    call = arguments() if call is None else call
    do, dht = (torch.zeros_like(x) for x in cotangents(SMALL))
    of = {"do": do, "dht": dht, **changes}
    derived(on.runner, call, (of["do"], of["dht"]), save)


def test_the_stages_are_launched_in_order_on_the_current_stream(device: Device) -> None:
    device.driver.stream = 42
    ran(device, arguments(RAW), "states")
    launched = [launch.symbol.split("__")[0] for launch in device.driver.launches]
    assert launched[5:] == [*STAGES, *GATE_GRADIENTS]
    assert {launch.stream for launch in device.driver.launches} == {42}


def test_the_gradient_of_the_state_alone_takes_two_stages(device: Device) -> None:
    call = arguments()
    assert call.initial_state is not None
    state = call.initial_state.requires_grad_()
    o, _ = differentiable(device.runner, call, "minimal")
    torch.autograd.grad(o, state, torch.zeros_like(o))
    assert [launch.symbol.split("__")[0] for launch in device.driver.launches[4:]] == ["dv_local", "dhu"]


HIT: dict[str, dict[str, Any]] = {
    "other tensors": {"v": torch.ones(1, 8, 2, 64).bfloat16()},
    "the lengths in another tensor": {"cu_seqlens_cpu": offsets(0, 3, 8)},
}
MISS_OF_THE_FORWARD: dict[str, dict[str, Any]] = {
    "strides of q": {"q": torch.zeros(1, 8, 2, 64).bfloat16()[:, :, :1]},
    "strides of gates that are not raw": {"g": torch.zeros(1, 2, 8).transpose(1, 2)},
}
MISS: dict[str, dict[str, Any]] = {
    "lengths": {"cu_seqlens_cpu": offsets(0, 4, 8)},
    "no host copy": {"cu_seqlens_cpu": None},
    "strides of v": {"v": torch.zeros(1, 8, 4, 64).bfloat16()[:, :, :2]},
    "alignment of v": {"v": misaligned(torch.zeros(1, 8, 2, 64).bfloat16())},
    "strides of the state": {"initial_state": torch.zeros(2, 2, 64, 64).transpose(2, 3)},
    "no initial state": {"initial_state": None},
    "scale": {"scale": 0.25},
    "norm": {"normalise": False},
    "key heads": {name: torch.zeros(1, 8, 2, 64).bfloat16() for name in ("q", "k")},
    "one batch row without offsets": {"cu_seqlens": None, "cu_seqlens_cpu": None, "initial_state": None},
}
MISS_BY_GRADIENTS: dict[str, dict[str, Any]] = {
    "no gradient of o": {"do": None},
    "no gradient of the final state": {"dht": None},
    "strides of the gradient of o": {"do": torch.zeros(1, 1, 1, 1).bfloat16().expand(1, 8, 2, 64)},
    "alignment of the gradient of o": {"do": misaligned(torch.zeros(1, 8, 2, 64).bfloat16())},
    "strides of that of the final state": {"dht": torch.zeros(2, 2, 64, 64).mT},
    "what is saved": {"save": "states"},
}


@pytest.mark.parametrize("name", HIT)
def test_backwards_that_are_alike_share_a_plan(name: str, device: Device) -> None:
    ran(device)
    ran(device, arguments(**HIT[name]))
    assert device.n_plans == 1


@pytest.mark.parametrize("name", MISS_OF_THE_FORWARD)
def test_what_the_backward_does_not_read_counts_where_the_forwards_plan_stands_for_it(
    name: str, device: Device
) -> None:
    for call in (arguments(), arguments(**MISS_OF_THE_FORWARD[name]), arguments()):
        ran(device, call)
    assert device.n_plans == (2 if device.tells_plans else 1)


@pytest.mark.parametrize("name", MISS)
def test_a_backward_of_another_kind_gets_a_plan_of_its_own(name: str, device: Device) -> None:
    for call in (arguments(), arguments(**MISS[name]), arguments()):
        n_sequences = len(checked_lengths(call, None, False)) if call.cu_seqlens is None else 2
        ran(device, call, dht=torch.zeros(n_sequences, 2, 64, 64))
    assert device.n_plans == 2


@pytest.mark.parametrize("name", MISS_BY_GRADIENTS)
def test_the_layout_of_what_comes_in_decides_a_plan(name: str, device: Device) -> None:
    ran(device)
    ran(device, **MISS_BY_GRADIENTS[name])
    ran(device)
    assert device.n_plans == 1 + (name != "no gradient of o"), "zeros are made where there is none"


RAW_MISS: dict[str, dict[str, Any]] = {
    "no bias": {"dt_bias": None},
    "no negative eigenvalues": {"allow_neg_eigval": False},
    "no raw gates": {"A_log": None, "dt_bias": None, "g": torch.zeros(1, 8, 2)},
    "no raw steps": {"sigmoid_of_beta": False, "allow_neg_eigval": False},
    "dtype of raw gates": {"g": torch.zeros(1, 8, 2)},
    "strides of raw steps": {"beta": torch.zeros(1, 2, 8).bfloat16().transpose(1, 2)},
    "strides of A_log": {"A_log": torch.zeros(4)[::2]},
}


@pytest.mark.parametrize("name", RAW_MISS)
def test_a_backward_through_other_gates_gets_a_plan_of_its_own(name: str, device: Device) -> None:
    for changes in ({}, RAW_MISS[name], {}):
        ran(device, arguments(RAW, **changes))
    assert device.n_plans == 2


def test_a_graph_records_warm_backwards(device: Device) -> None:
    ran(device)
    ran(device, save="states", dht=None)
    device.driver.is_capturing = True
    ran(device)
    n_launches = len(device.driver.launches)
    with pytest.raises(LoomgenError, match="make it once before the capture"):
        ran(device, dht=None)
    assert len(device.driver.launches) == n_launches + 4, "the forward's"


def test_a_backward_without_tokens(device: Device) -> None:
    x = torch.zeros(1, 0, 2, 64).bfloat16()
    call = arguments(
        q=x, k=x, v=x, g=None, beta=torch.zeros(1, 0, 2), cu_seqlens=None, cu_seqlens_cpu=None,
        initial_state=torch.ones(1, 2, 64, 64),
    )  # fmt: skip
    found = derived(device.runner, call, (torch.zeros_like(x), torch.ones(1, 2, 64, 64)))
    assert {name: dx.shape for name, dx in found.items() if dx is not None} == {
        name: call._asdict()[name].shape for name in ("q", "k", "v", "beta", "initial_state")
    }
    assert [launch.symbol.split("__")[0] for launch in device.driver.launches] == ["fwd_h", "fwd_h", "dhu"]


def test_gradients_of_results_are_of_this_call(device: Device) -> None:
    """A plan keeps no tensor of the call that it was made for."""
    seen: list[BackwardCall] = []

    def remembered(call: BackwardCall, plan: Hashable) -> Any:
        seen.append(call)
        return device.backward.run(call, plan)

    call = arguments()
    runner = Runner(forward=device.forward.run, backward=remembered)
    for _ in range(2):
        derived(runner, call, cotangents(SMALL))
    addresses = {x.data_ptr() for of in seen for x in (of.saved, of.do) if x is not None}
    pointers = {int.from_bytes(x, "little") for launch in device.driver.launches[4:] for x in launch.parameters}
    assert addresses <= pointers and seen[0].saved.data_ptr() != seen[1].saved.data_ptr()
