"""Kind 12, a flag that some path ignores: elsewhere numbers were silently others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from loomgen.ops import chunk_gated_delta_rule
from loomgen.verify import OpCase
from loomgen.verify.op import OP_BOUNDS, OpInputs, exact_results
from tests.failures.emulated import differing, emulated, errors, make_call, on_emulated_card
from tests.ops.call import arguments

PLAIN = OpCase(name="plain", lengths=(3, 66), head_dim=64, normalise=False)
RAW = replace(PLAIN, raw_gates=torch.bfloat16, raw_steps=torch.bfloat16)
Ignoring = Callable[[OpCase, OpInputs], tuple[OpCase, OpInputs]]
FLAGS: dict[str, tuple[OpCase, Ignoring]] = {
    "use_qk_l2norm_in_kernel": (
        replace(PLAIN, normalise=True), lambda case, x: (replace(case, normalise=False), replace(x, k=x.k / 16)),
    ),
    "state_v_first": (replace(PLAIN, state_v_first=True), lambda case, x: (replace(case, state_v_first=False), x)),
    "use_gate_in_kernel": (RAW, lambda case, x: (case, replace(x, A_log=None, dt_bias=None))),
    "use_beta_sigmoid_in_kernel": (RAW, lambda case, x: (replace(case, raw_steps=None), x)),
    "allow_neg_eigval": (replace(RAW, negative=True), lambda case, x: (replace(case, negative=False), x)),
}  # fmt: skip
"""A case with each flag, and that call as it would be if the flag were ignored; keys that are not normalised are then
shorter, lest they overflow."""

OTHERS = ("output_final_state", "checked")
"""Flags that decide what is returned or looked at, and no number."""


def test_every_flag_is_here() -> None:
    parameters = inspect.signature(chunk_gated_delta_rule).parameters.values()
    assert {x.name for x in parameters if isinstance(x.default, bool)} == {*FLAGS, *OTHERS}


@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_that_is_ignored_is_far_past_the_bounds(flag: str) -> None:
    case, ignoring = FLAGS[flag]
    call = make_call(case, 0)
    found, wrong = (exact_results(*of, call.given).values for of in ((case, call.inputs), ignoring(case, call.inputs)))
    for name in {"o", "final_state", "dq", "dk", "dbeta", "dh0"} - _SAME.get(flag, set()):
        assert not float((wrong[name] - found[name]).norm() / found[name].norm()) <= 10 * OP_BOUNDS[name], name


_SAME = {"state_v_first": {"final_state", "dk", "dbeta", "dh0"}}


@pytest.mark.parametrize("flag", FLAGS)
def test_forward_and_backward_take_each_flag(flag: str) -> None:
    found = errors(FLAGS[flag][0])
    assert all(error <= 1 for error in found.values()), found


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("flag", FLAGS)
def test_a_gpu_takes_each_flag(flag: str, on_device: bool) -> None:
    call = make_call(replace(FLAGS[flag][0], lengths=(3, 5)), 0)
    assert differing(on_emulated_card(call, on_device=on_device), emulated(call)) == set()


@pytest.mark.parametrize("flag", [*FLAGS, *OTHERS])
@pytest.mark.parametrize("value", ["False", 1, None])
def test_a_flag_is_true_or_false(flag: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"{flag}: .* expected True or False"):
        chunk_gated_delta_rule(**{**arguments(PLAIN), flag: value})


def test_what_there_is_no_kernel_for_is_refused() -> None:
    given = arguments(PLAIN)
    with pytest.raises(NotImplementedError, match="cp_context"):
        chunk_gated_delta_rule(**given, cp_context=object())
    with pytest.raises(ValueError, match="chunk_size: 32"):
        chunk_gated_delta_rule(**given, chunk_size=32)
    with pytest.raises(ValueError, match="allow_neg_eigval: True, expected False without"):
        chunk_gated_delta_rule(**{**given, "allow_neg_eigval": True})
