"""The operator against the float64 recurrence, in every case that ``loomgen verify --op`` runs."""

from __future__ import annotations

import pytest
import torch

from loomgen.errors import LoomgenError
from loomgen.verify import CASES, OpCase, verify_op
from loomgen.verify.op import OP_BOUND, golden_op, op_inputs
from loomgen.verify.problem import LOWEST_GATE

NAME = "chunk_gated_delta_rule"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_output_and_final_state_are_within_the_bound(case: OpCase) -> None:
    rows = verify_op(NAME, (0,), cases=(case,))
    assert [row.tensor for row in rows] == ["o", "final_state"]
    assert all(row.rel_l2 <= row.bound == OP_BOUND and row.ok for row in rows), rows


def test_the_cases_cover_what_the_operator_takes() -> None:
    assert len(CASES) >= 12
    assert {value_heads // key_heads for key_heads, value_heads in (case.heads for case in CASES)} == {1, 2, 3, 4, 8}
    assert {case.head_dim for case in CASES} == {64, 128}
    assert {case.dtype for case in CASES} == {torch.bfloat16, torch.float16}
    assert {case.step for case in CASES} == {torch.float32, torch.bfloat16}
    assert {case.gates for case in CASES} == {"usual", "strong", "zero", "none"}
    for flag in ("packed", "normalise", "initial_state", "state_v_first", "views"):
        assert {getattr(case, flag) for case in CASES} == {True, False}, flag


def test_a_case_past_its_bound_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    case = OpCase(name="wrong", lengths=(15,), heads=(1, 1), head_dim=64)

    def wrong(of: OpCase, inputs: object) -> tuple[torch.Tensor, torch.Tensor]:
        o, final = golden_op(of, op_inputs(of, 0))
        return o * 1.01, final

    monkeypatch.setattr("loomgen.verify.op.golden_op", wrong)
    o, final = verify_op(NAME, (0,), cases=(case,))
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
