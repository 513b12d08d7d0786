"""The GPU's path without a GPU: launches reach a driver that emulates them, on CPU tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from loomgen.errors import LoomgenError
from loomgen.ops.arguments import Arguments
from loomgen.ops.checks import checked_lengths
from loomgen.ops.device import DeviceForward
from loomgen.ops.dispatch import CHUNK, GATES, STAGES
from loomgen.ops.forward import forward
from loomgen.ops.library import emulated_library
from loomgen.ops.packed import call_sizes
from loomgen.runtime.kernels import DeviceKernels
from loomgen.verify import OpCase, same_bits
from loomgen.verify.op import arguments_of, op_inputs
from tests.ops.call import offsets
from tests.ops.emulating_driver import EmulatingDriver, parameter_sizes
from tests.runtime.fake_cubins import NamesAsCubins
from tests.runtime.fake_driver import FakeDriver

SMALL = OpCase(name="small", lengths=(3, 5), heads=(1, 2), head_dim=64)
RAW = replace(SMALL, raw_gates=torch.bfloat16, raw_steps=torch.bfloat16, negative=True)


def arguments(case: OpCase = SMALL, **changes: Any) -> Arguments:
    inputs = op_inputs(case, 0)
    return arguments_of(case, inputs, cu_seqlens_cpu=inputs.cu_seqlens)._replace(**changes)


def changed(call: Arguments, **changes: Any) -> Arguments:
    return call._replace(**changes)


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver(parameter_sizes(), {0: (10, 0)})


def device(driver: FakeDriver, capacity: int = 8) -> DeviceForward:
    return DeviceForward(DeviceKernels(0, driver, NamesAsCubins()), capacity)


def n_plans(on: DeviceForward) -> int:
    return len(on._plans)


def emulated(call: Arguments) -> tuple[Tensor, Tensor | None]:
    return forward(call, checked_lengths(call, None, False), emulated_library())[:2]


def on_emulated_gpu(*calls: Arguments) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The results of calls of the same dims, through one plan cache."""
    lengths = checked_lengths(calls[0], None, False)
    dims = call_sizes(calls[0], len(lengths), sum(-(-length // CHUNK) for length in lengths))
    on = device(EmulatingDriver(dims=dims))
    for call in calls:
        yield on.run(call)[:2]


def misaligned(x: Tensor) -> Tensor:
    """The same values, two bytes past a vector boundary."""
    memory = torch.empty(x.numel() + 1, dtype=x.dtype)[1:].view(x.shape)
    return memory.copy_(x)


def same(a: tuple[Tensor, Tensor | None], b: tuple[Tensor, Tensor | None]) -> bool:
    if a[1] is None or b[1] is None:
        return a[1] is b[1] and same_bits(a[0], b[0])
    return same_bits(a[0], b[0]) and same_bits(a[1].contiguous(), b[1].contiguous())


CALLS = {
    "packed": arguments(),
    "views": arguments(replace(SMALL, views=True)),
    "a batch": arguments(replace(SMALL, lengths=(5, 5), packed=False)),
    "a batch along the tokens": arguments(replace(SMALL, lengths=(5, 5), packed=False)),
    "values first": arguments(replace(SMALL, state_v_first=True)),
    "no gate": arguments(replace(SMALL, gates="none")),
    "no states": arguments(output_final_state=False, initial_state=None),
    "slack": arguments(replace(SMALL, slack=4)),
    "empty sequences": arguments(replace(SMALL, lengths=(0, 66, 0))),
    "f16, beta in bf16, norm off": arguments(
        replace(SMALL, dtype=torch.float16, step=torch.bfloat16, normalise=False), scale=0.5
    ),
}
CALLS |= {
    "raw gates and steps": arguments(RAW),
    "raw gates without a bias": arguments(replace(RAW, raw_steps=None, negative=False, bias=False)),
    "raw steps, beta by heads": arguments(replace(RAW, raw_gates=None, views=True)),
    "raw steps, no gate": arguments(replace(RAW, raw_gates=None, gates="none")),
    "raw gates in f32, slack": arguments(replace(RAW, raw_gates=torch.float32, slack=4)),
    "parameters with gaps": arguments(RAW, A_log=torch.ones(4)[::2], dt_bias=torch.ones(6)[::3]),
}
CALLS["raw gates of a batch along the tokens"] = arguments(replace(RAW, lengths=(5, 5), packed=False))
CALLS["raw gates of a batch along the tokens"] = changed(
    CALLS["raw gates of a batch along the tokens"],
    **{
        name: getattr(CALLS["raw gates of a batch along the tokens"], name).transpose(0, 1).contiguous().transpose(0, 1)
        for name in ("g", "beta")
    },
)
CALLS["a misaligned q"] = changed(CALLS["packed"], q=misaligned(CALLS["packed"].q))
CALLS["a batch along the tokens"] = changed(
    CALLS["a batch along the tokens"],
    **{
        name: getattr(CALLS["a batch"], name).transpose(0, 1).contiguous().transpose(0, 1)
        for name in ("q", "k", "v", "g", "beta")
    },
)


@pytest.mark.parametrize("name", CALLS)
def test_the_bits_are_those_of_the_emulated_operator(name: str) -> None:
    call = CALLS[name]
    expected = emulated(call)
    first, again = on_emulated_gpu(call, call)
    assert expected[0].isfinite().all() and expected[0].any()
    assert same(first, expected) and same(again, expected)


def test_a_plan_serves_other_tensors_of_the_same_kind() -> None:
    call = CALLS["views"]
    inputs = op_inputs(replace(SMALL, views=True), 1)
    other = changed(call, q=inputs.q, k=inputs.k, v=inputs.v, g=inputs.g, beta=inputs.beta)
    first, second = on_emulated_gpu(call, other)
    assert same(second, emulated(other)) and not same(first, second)


def test_the_stages_are_launched_in_order_on_the_current_stream(driver: FakeDriver) -> None:
    driver.stream = 42
    device(driver).run(arguments())
    assert [launch.symbol.split("__")[0] for launch in driver.launches] == list(STAGES)
    assert {launch.stream for launch in driver.launches} == {42}


HIT: dict[str, dict[str, Any]] = {
    "nothing": {},
    "other tensors": {"q": torch.ones(1, 8, 1, 64).bfloat16()},
    "the lengths in another tensor": {"cu_seqlens_cpu": offsets(0, 3, 8)},
    "other contents of cu_seqlens": {"cu_seqlens": offsets(0, 4, 8)},
}
MISS: dict[str, dict[str, Any]] = {
    "lengths": {"cu_seqlens_cpu": offsets(0, 4, 8)},
    "no host copy": {"cu_seqlens_cpu": None},
    "strides of q": {"q": torch.zeros(1, 8, 2, 64).bfloat16()[:, :, :1]},
    "strides of g": {"g": torch.zeros(1, 2, 8).transpose(1, 2)},
    "strides of the state": {"initial_state": torch.zeros(2, 2, 64, 64).transpose(2, 3)},
    "alignment": {"k": misaligned(torch.zeros(1, 8, 1, 64).bfloat16())},
    "dtype of beta": {"beta": torch.zeros(1, 8, 2).bfloat16()},
    "value heads": {
        "v": torch.zeros(1, 8, 1, 64).bfloat16(),
        **{name: torch.zeros(1, 8, 1) for name in ("g", "beta")},
        "initial_state": torch.zeros(2, 1, 64, 64),
    },
    "no gate": {"g": None},
    "no initial state": {"initial_state": None},
    "no final state": {"output_final_state": False},
    "scale": {"scale": 0.25},
    "norm": {"normalise": False},
    "layout of states": {"state_v_first": True},
    "one batch row without offsets": {"cu_seqlens": None, "cu_seqlens_cpu": None, "initial_state": None},
}


@pytest.mark.parametrize("name", HIT)
def test_calls_that_are_alike_share_a_plan(name: str, driver: FakeDriver) -> None:
    on = device(driver)
    on.run(arguments())
    on.run(arguments(**HIT[name]))
    assert n_plans(on) == 1
    assert len(driver.launches) == 8


def test_a_plan_serves_other_raw_gates_and_parameters() -> None:
    call, inputs = arguments(RAW), op_inputs(RAW, 1)
    other = changed(call, **{name: getattr(inputs, name) for name in ("g", "beta", "A_log", "dt_bias")})
    first, second = on_emulated_gpu(call, other)
    assert same(second, emulated(other)) and not same(first, second)


RAW_MISS: dict[str, dict[str, Any]] = {
    "no raw steps": {"sigmoid_of_beta": False, "allow_neg_eigval": False},
    "no negative eigenvalues": {"allow_neg_eigval": False},
    "no raw gates": {"A_log": None, "dt_bias": None, "g": torch.zeros(1, 8, 2)},
    "no bias": {"dt_bias": None},
    "strides of A_log": {"A_log": torch.zeros(4)[::2]},
    "dtype of raw gates": {"g": torch.zeros(1, 8, 2)},
    "dtype of raw steps": {"beta": torch.zeros(1, 8, 2).half()},
}


@pytest.mark.parametrize("name", RAW_MISS)
def test_a_call_that_makes_other_gates_gets_a_plan_of_its_own(name: str, driver: FakeDriver) -> None:
    on = device(driver)
    on.run(arguments(RAW))
    on.run(arguments(RAW, **RAW_MISS[name]))
    on.run(arguments(RAW))
    assert n_plans(on) == 2
    launched = [launch.symbol.split("__")[0] for launch in driver.launches]
    assert launched[:5] == launched[-5:] == [GATES, *STAGES]


@pytest.mark.parametrize("name", MISS)
def test_a_call_of_another_kind_gets_a_plan_of_its_own(name: str, driver: FakeDriver) -> None:
    on = device(driver)
    on.run(arguments())
    on.run(arguments(**MISS[name]))
    on.run(arguments())
    assert n_plans(on) == 2


def test_lengths_are_compared_by_value_after_the_tensor_was_written(driver: FakeDriver) -> None:
    on = device(driver)
    lengths = offsets(0, 3, 8)
    on.run(arguments(cu_seqlens_cpu=lengths))
    lengths[1] = 4
    on.run(arguments(cu_seqlens_cpu=lengths))
    assert n_plans(on) == 2


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"q": torch.zeros(1, 8, 1, 64)}, "q: torch.float32, expected torch.bfloat16 or torch.float16"),
    ({"q": torch.zeros(1, 8, 1, 96).bfloat16(), "k": torch.zeros(1, 8, 1, 96).bfloat16()}, "q: head dim 96, expected"),
    ({"k": torch.zeros(1, 8, 1, 64, device="meta")}, "k: on meta, expected cpu"),
    ({"cu_seqlens_cpu": offsets(0, 5, 4)}, "cu_seqlens_cpu: 5 then 4 at 2, expected offsets that never decrease"),
    ({"cu_seqlens_cpu": offsets(0, 5, 9)}, "cu_seqlens_cpu: ends at 9, expected at most the 8 tokens of q"),
    ({"cu_seqlens_cpu": offsets(0, 8)}, "cu_seqlens_cpu: 2 offsets, expected the 3 of cu_seqlens"),
    ({"cu_seqlens_cpu": torch.zeros(3)}, "cu_seqlens_cpu: torch.float32, expected torch.int32 or torch.int64"),
    ({"cu_seqlens_cpu": torch.zeros(3).int().to("meta")}, "cu_seqlens_cpu: on meta, expected cpu"),
    ({"cu_seqlens": offsets(), "cu_seqlens_cpu": None}, "cu_seqlens: 0 offsets, expected N + 1 of them"),
    ({"cu_seqlens": offsets(0), "cu_seqlens_cpu": None}, "cu_seqlens: 1 offset, expected N + 1 of them"),
    ({"cu_seqlens": torch.zeros(3), "cu_seqlens_cpu": None}, "cu_seqlens: torch.float32, expected torch.int32 or"),
    ({"cu_seqlens_cpu": None, "chunk_indices": offsets(0, 0)}, "chunk_indices: shape [2], expected [2, 2]"),
    ({"cu_seqlens": None}, "cu_seqlens_cpu: given, expected None without cu_seqlens"),
    ({"chunk_indices": offsets(0, 0)}, "chunk_indices: shape [2], expected [2, 2]"),
    ({"allow_neg_eigval": True}, "allow_neg_eigval: True, expected False without use_beta_sigmoid_in_kernel"),
    ({"A_log": torch.zeros(3)}, "A_log: shape [3], expected [2], [HV] of v"),
    ({"A_log": torch.zeros(2), "g": None}, "g: None, expected raw gates, [B, T, HV], with use_gate_in_kernel"),
    ({"dt_bias": torch.zeros(2)}, "dt_bias: given, expected None without A_log"),
    ({"initial_state": torch.zeros(1, 2, 64, 64)}, "initial_state: 1 states, expected 2, one for each sequence"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG)
@pytest.mark.parametrize("warm", [False, True])
def test_a_wrong_argument_is_named_before_anything_is_launched(
    changes: dict[str, Any], message: str, warm: bool, driver: FakeDriver
) -> None:
    on = device(driver)
    if warm:
        on.run(arguments())
    n_launches = len(driver.launches)
    for _ in range(2):
        with pytest.raises((TypeError, ValueError)) as raised:
            on.run(arguments(**changes))
        assert str(raised.value).startswith(message)
    assert len(driver.launches) == n_launches


def test_a_graph_records_warm_calls(driver: FakeDriver) -> None:
    on = device(driver, capacity=1)
    on.run(arguments())
    driver.is_capturing = True
    on.run(arguments())
    with pytest.raises(LoomgenError, match="make it once before the capture"):
        on.run(arguments(scale=0.25))
    driver.is_capturing = False
    on.run(arguments(scale=0.25))
    on.run(arguments(scale=0.5))
    assert n_plans(on) == 2, "the recorded plan and the latest"


def test_a_call_without_tokens(driver: FakeDriver) -> None:
    x = torch.zeros(1, 0, 2, 64).bfloat16()
    call = arguments(
        q=x, k=x, v=x, g=None, beta=torch.zeros(1, 0, 2), cu_seqlens=None, cu_seqlens_cpu=None,
        initial_state=torch.ones(1, 2, 64, 64),
    )  # fmt: skip
    o, final, *_ = device(driver).run(call)
    assert o.shape == (1, 0, 2, 64) and final is not None and final.shape == (1, 2, 64, 64)
    assert [launch.symbol.split("__")[0] for launch in driver.launches] == ["fwd_h"]
