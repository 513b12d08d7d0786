"""The operator's rows: its gradients, what they are compared with, and the error that rounding alone explains."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from loomgen.cli.project import Project
from loomgen.verify import CASES, OpCase, verify_op
from loomgen.verify.interpreted import InterpretedLibrary
from loomgen.verify.op import (
    FROM_ROUNDING,
    OP_BOUNDS,
    OpInputs,
    exact_results,
    golden_op,
    op_inputs,
    rounding_errors,
    run_op,
)
from loomgen.verify.op_gradients import Exact, output_gradients, with_gradients
from tests.verify.committed import ROOT

NAME = "chunk_gated_delta_rule"
SMALL = OpCase(name="small", lengths=(3, 9), heads=(1, 2), head_dim=64)
LASTING = [case for case in CASES if case.is_lasting]


@pytest.fixture(scope="module")
def rounded() -> InterpretedLibrary:
    return InterpretedLibrary.of(Project(ROOT).kernels(), "rounded")


@pytest.mark.parametrize("case", LASTING, ids=lambda case: case.name)
def test_where_errors_last_they_are_those_of_the_written_roundings(case: OpCase, rounded: InterpretedLibrary) -> None:
    inputs = op_inputs(case, 0)
    given = output_gradients(case, inputs, 0)
    exact = exact_results(case, inputs, given)
    found = with_gradients(lambda leaves: run_op(case, leaves, "emulate"), inputs, given)
    for name, explained in rounding_errors(rounded, case, inputs, given).items():
        assert exact.error(name, found[name]) <= FROM_ROUNDING * explained, name


PAST_ITS_BOUND = OpCase(name="g = 0", lengths=(192,), heads=(1, 1), gates="zero")
"""Without decay dg is the product of a state and a gradient that have little to do with one another, and a sum of both
signs: it may be small, and its error as large as ever."""


def test_an_error_past_its_bound_is_explained_where_errors_last_and_only_there() -> None:
    alone = verify_op(NAME, (0,), cases=(PAST_ITS_BOUND,))
    assert [row.tensor for row in alone if not row.ok] == ["dg"]
    explained = verify_op(NAME, (0,), cases=(PAST_ITS_BOUND,), kernels=Project(ROOT).kernels)
    assert all(row.ok for row in explained)
    assert all(row.bound >= OP_BOUNDS[row.tensor] for row in explained)
    assert not replace(PAST_ITS_BOUND, gates="usual").is_lasting


def test_a_gradient_past_its_bound_is_not_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(case: OpCase, inputs: OpInputs) -> tuple[Tensor, Tensor]:
        return golden_op(case, replace(inputs, k=Scaled.apply(inputs.k)))  # type: ignore[no-untyped-call]

    monkeypatch.setattr("loomgen.verify.op.golden_op", wrong)
    rows = verify_op(NAME, (0,), cases=(SMALL,))
    assert [row.tensor for row in rows if not row.ok] == ["dk"]
    assert len(rows) == 8


class Scaled(torch.autograd.Function):
    """The same numbers, and two per cent more gradient."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, dx: Tensor) -> Tensor:
        return 1.02 * dx


def test_what_is_not_passed_has_no_row() -> None:
    case = replace(SMALL, gates="none", initial_state=False)
    assert [row.tensor for row in verify_op(NAME, (0,), cases=(case,))] == [
        *("o", "final_state", "dq", "dk", "dv", "dbeta")
    ]


def test_slack_has_gradients_of_nan_and_the_golden_none() -> None:
    case = replace(SMALL, slack=4, raw_gates=torch.bfloat16, raw_steps=torch.bfloat16)
    inputs = op_inputs(case, 0)
    given = output_gradients(case, inputs, 0)
    assert given.do[:, 12:].isnan().all() and given.do[:, :12].isfinite().all()
    exact = exact_results(case, inputs, given).values
    assert all(x.isfinite().all() for x in exact.values())
    assert not exact["dbeta"][:, 12:].any() and exact["dA_log"].any()


def test_gradients_are_drawn_apart_from_inputs() -> None:
    inputs = op_inputs(SMALL, 0)
    do = output_gradients(SMALL, inputs, 0).do
    assert not torch.equal(do.flatten()[:64], inputs.q.flatten()[:64])
    assert not torch.equal(do, output_gradients(SMALL, inputs, 1).do)


def test_the_error_of_a_sum_is_measured_by_the_magnitudes_of_its_parts() -> None:
    parts = torch.tensor([[[3.0, 1.0], [-3.0, 1.0]]], dtype=torch.float64)
    exact = Exact.of({"o": torch.ones(2).double(), "dA_log": parts})
    assert torch.equal(exact.values["dA_log"], torch.tensor([0.0, 2.0], dtype=torch.float64))
    assert exact.error("dA_log", torch.tensor([0.4, 2.0])) == pytest.approx(0.4 / 40**0.5)
    assert exact.error("o", torch.tensor([1.0, 2.0])) == pytest.approx(2**-0.5)
    assert exact.error("o", torch.tensor([1.0, float("nan")])) == float("inf")
