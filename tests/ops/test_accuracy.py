"""The operator against the float64 recurrence, in every case that ``loomgen verify --op`` runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from loomgen.errors import LoomgenError
from loomgen.verify import CASES, OpCase, verify_op
from loomgen.verify.op import OP_BOUND, OP_BOUNDS, OpInputs, golden_op, op_inputs
from loomgen.verify.problem import LOWEST_GATE

NAME = "chunk_gated_delta_rule"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_results_and_gradients_are_within_their_bounds(case: OpCase) -> None:
    rows = verify_op(NAME, (0,), cases=(case,))
    assert [row.tensor for row in rows] == ["o", "final_state", *gradients_of(case)]
    assert all(row.rel_l2 <= row.bound == OP_BOUNDS[row.tensor] and row.ok for row in rows), rows


def gradients_of(case: OpCase) -> list[str]:
    of_gates = ["dA_log", *(["ddt_bias"] if case.bias else [])] if case.raw_gates is not None else []
    return [
        *("dq", "dk", "dv"), *(["dg"] if case.gates != "none" else []), "dbeta",
        *(["dh0"] if case.initial_state else []), *of_gates,
    ]  # fmt: skip


def test_the_cases_cover_what_the_operator_takes() -> None:
    assert len(CASES) >= 12
    assert {value_heads // key_heads for key_heads, value_heads in (case.heads for case in CASES)} == {1, 2, 3, 4, 8}
    assert {case.head_dim for case in CASES} == {64, 128}
    assert {case.dtype for case in CASES} == {torch.bfloat16, torch.float16}
    assert {case.step for case in CASES} == {torch.float32, torch.bfloat16}
    assert {case.gates for case in CASES} == {"usual", "strong", "zero", "none"}
    raw_gates, raw_steps = ({getattr(case, name) for case in CASES} for name in ("raw_gates", "raw_steps"))
    assert raw_gates == {None, torch.float32, torch.bfloat16, torch.float16}
    assert raw_steps == {None, torch.float32, torch.bfloat16}
    for flag in ("packed", "normalise", "initial_state", "state_v_first", "views", "bias", "negative"):
        assert {getattr(case, flag) for case in CASES} == {True, False}, flag


IGNORED: dict[str, tuple[str, Callable[[OpCase, OpInputs], tuple[OpCase, OpInputs]]]] = {
    "use_gate_in_kernel": ("raw gates", lambda case, x: (case, replace(x, A_log=None))),
    "A_log": ("raw gates", lambda case, x: (case, replace(x, A_log=torch.zeros(2)))),
    "dt_bias": ("raw gates", lambda case, x: (case, replace(x, dt_bias=None))),
    "use_beta_sigmoid_in_kernel": ("raw steps", lambda case, x: (replace(case, raw_steps=None), x)),
    "allow_neg_eigval": ("negative eigenvalues", lambda case, x: (replace(case, negative=False), x)),
}
"""A case that has each flag, and that case as it would be without."""


@pytest.mark.parametrize("flag", IGNORED)
def test_a_flag_that_is_ignored_is_far_past_the_bound(flag: str) -> None:
    name, ignore = IGNORED[flag]
    case = next(case for case in CASES if case.name == name)
    inputs = op_inputs(case, 0)
    with_flag, without = golden_op(case, inputs), golden_op(*ignore(case, inputs))
    assert all(float((x - y).norm() / x.norm()) > 10 * OP_BOUND for x, y in zip(with_flag, without, strict=True))


def test_a_case_past_its_bound_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    case = OpCase(name="wrong", lengths=(15,), heads=(1, 1), head_dim=64)

    def wrong(of: OpCase, inputs: OpInputs) -> tuple[torch.Tensor, torch.Tensor]:
        o, final = golden_op(of, inputs)
        return o * 1.01, final

    monkeypatch.setattr("loomgen.verify.op.golden_op", wrong)
    o, final, *_ = verify_op(NAME, (0,), cases=(case,))
    assert (o.ok, final.ok) == (False, True)
    assert 5e-3 < o.rel_l2 < 2e-2


def test_strong_gates_and_views_are_what_they_say() -> None:
    strong = op_inputs(next(case for case in CASES if case.gates == "strong"), 0)
    assert strong.g is not None and strong.g.min() == LOWEST_GATE and strong.g.max() > -1
    views = op_inputs(next(case for case in CASES if case.views), 0)
    assert views.q.stride() == (80 * 512, 512, 128, 1) and views.v.storage_offset() == 256
    assert views.beta.stride()[1:] == (1, 80)
    assert views.initial_state is not None and views.initial_state.stride()[2:] == (136, 1)


def test_an_unknown_operator_is_named() -> None:
    with pytest.raises(LoomgenError, match="no operator is called 'nothing'; operators: chunk_gated_delta_rule"):
        verify_op("nothing", (0,))
