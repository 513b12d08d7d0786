"""The determinism check: every sum in its recorded order, on every kernel; and each way to break that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from loomgen.errors import InternalError
from loomgen.ir import plan, tile
from loomgen.ir.order import ContractOrder, Order, ReduceOrder
from loomgen.ir.plan import Plan, PlanOp
from loomgen.ir.tile import Program
from loomgen.passes.determinism import check_determinism
from tests.passes.gdn import ALL_STAGES, kernel, lowered


def fault(program: Program, the_plan: Plan, orders: Mapping[str, Order]) -> str:
    """What the check says, or nothing."""
    try:
        check_determinism(program, the_plan, orders)
    except InternalError as error:
        return str(error)
    return ""


def changed(stage: str, name: str, order: Order) -> str:
    whole = lowered(stage)
    return fault(whole.program, whole.plan, {**whole.orders, name: order})


def contract(stage: str, name: str) -> ContractOrder:
    order = lowered(stage).orders[name]
    assert isinstance(order, ContractOrder)
    return order


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_the_kernels_are_deterministic(stage: str) -> None:
    whole = lowered(stage)
    assert fault(whole.program, whole.plan, whole.orders) == ""


def test_every_product_has_an_order() -> None:
    whole = lowered("fwd_o")
    orders = {name: order for name, order in whole.orders.items() if name != "P_mm"}
    assert "product P_mm[i,j]:f32 has no order: 'P[i,j]" in fault(whole.program, whole.plan, orders)


def test_an_order_takes_each_element_once() -> None:
    order = contract("fwd_o", "P_mm")
    doubled = replace(order, slots=(0, *order.slots[:-1]))
    assert "the order of P_mm[i,j]:f32 does not cover d, 128 elements" in changed("fwd_o", "P_mm", doubled)
    assert "does not cover d" in changed("fwd_o", "P_mm", replace(order, parts=3))


def test_a_plan_sums_as_recorded() -> None:
    order = contract("fwd_h", "x_mm")
    assert order.parts == 2
    assert "x_mm[e,i]:f32 is not summed in its recorded order" in changed("fwd_h", "x_mm", replace(order, parts=1))
    reverse = replace(order, slots=tuple(reversed(order.slots)))
    assert "is not summed in its recorded order" in changed("fwd_h", "x_mm", reverse)


def test_a_reduction_takes_each_element_once_in_pairs() -> None:
    name = next(name for name, order in lowered("prep").orders.items() if isinstance(order, ReduceOrder))
    missing = ReduceOrder(partials=(tuple(range(127)),))
    assert "does not take each of 128 elements once" in changed("prep", name, missing)
    thirds = ReduceOrder(partials=(tuple(range(42)), tuple(range(42, 84)), tuple(range(84, 128))))
    assert "3 partial results" in changed("prep", name, thirds)


def test_parts_of_a_sum_are_added_by_their_exchange() -> None:
    whole = lowered("fwd_h")

    def without(kind: type[PlanOp]) -> Plan:
        body = tuple(
            replace(op, body=tuple(inner for inner in op.body if not isinstance(inner, kind)))
            if isinstance(op, plan.ChunkLoop)
            else op
            for op in whole.plan.body
        )
        return replace(whole.plan, body=body)

    for kind in (plan.ExchangeRead, plan.ExchangeWrite):
        assert "the parts of x_mm are not added" in fault(whole.program, without(kind), whole.orders)
    assert "products are carried out by" in fault(whole.program, without(plan.Mma), whole.orders)


def test_more_than_two_parts_have_no_exchange() -> None:
    whole = lowered("fwd_h")
    four = replace(whole.plan, team=plan.Team(slabs=2, parts=4))
    assert "4 parts of x_mm are exchanged in no order" in fault(whole.program, four, whole.orders)


def test_an_inverse_that_was_not_lowered_has_no_order() -> None:
    program = kernel("wy").program
    inverse = next(stmt for stmt in program.body if isinstance(stmt, tile.Inverse))
    alone = replace(program, body=(inverse,))
    assert "U[i,j]:f32 is inverted in no order" in fault(alone, replace(lowered("wy").plan, body=()), {})
