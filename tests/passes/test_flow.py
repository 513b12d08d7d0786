"""All ways through small plans: arms and trip counts in every combination, in a graph that grows with the plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Barrier, PlanOp, Scope
from loomgen.ir.tile import Const, TileRead
from loomgen.ir.types import DType, Value
from loomgen.passes.allocate import allocate
from loomgen.passes.flow import graphs
from loomgen.passes.synchronise import synchronise
from loomgen.passes.trace import range_trips, traces
from loomgen.passes.verify_sync import verify_sync
from tests.passes.support import SPAN, buffer, copy_out, kernel, loop, numbered_loop, store

A, B = buffer("a"), buffer("b")
COUNT = TileRead(value=Value(name="n", dtype=DType.I32, indices=()), subs=(), span=SPAN)


def branch(then: tuple[PlanOp, ...], orelse: tuple[PlanOp, ...] = ()) -> plan.Conditional:
    cond = Const(value=True, dtype=DType.BOOL, span=SPAN)
    return plan.Conditional(cond=cond, homes=(), then=then, orelse=orelse, text="if x")


def counted_loop(*body: PlanOp) -> plan.RangeLoop:
    """A loop of which only running it tells how often it runs."""
    return replace(numbered_loop(2, *body), end=COUNT)


def barriers(ops: tuple[PlanOp, ...]) -> int:
    found = 0
    for op in ops:
        match op:
            case Barrier(scope=Scope.BLOCK):
                found += 1
            case plan.RangeLoop() | plan.ChunkLoop():
                found += barriers(op.body)
            case plan.Conditional():
                found += barriers(op.then) + barriers(op.orelse)
            case _:
                pass
    return found


def test_a_branch_has_both_arms_side_by_side() -> None:
    (nodes,) = graphs(kernel(branch((store(A),), (store(B),)), copy_out(A)))
    assert [(type(node.event.op).__name__, node.before) for node in nodes] == [
        ("Reached", ()),
        ("StoreFragment", (0,)),
        ("StoreFragment", (0,)),
        ("CopyOut", (1, 2)),
    ]


def test_a_loop_of_unknown_length_ends_after_none_one_or_two() -> None:
    (nodes,) = graphs(kernel(counted_loop(store(A)), copy_out(A)))
    assert [node.before for node in nodes] == [(), (0,), (1,), (0, 1, 2)]
    (nodes,) = graphs(kernel(numbered_loop(9, store(A)), copy_out(A)))
    assert [node.before for node in nodes] == [(), (0,), (1,), (2,)]
    assert range_trips(numbered_loop(9)) == (9, 9)


def test_a_loop_over_chunks_has_a_graph_for_each_number_of_them() -> None:
    assert [len(nodes) for nodes in graphs(kernel(loop(store(A))))] == [1, 2, 3, 4]


def test_the_graph_grows_with_the_plan_only() -> None:
    (nodes,) = graphs(kernel(*[branch((store(A),), (store(B),))] * 20))
    assert len(nodes) == 60


def test_a_barrier_inside_a_loop_that_may_not_run_orders_nothing_behind_it() -> None:
    before = kernel(store(A), counted_loop(copy_out(A)), copy_out(A))
    layout = allocate(before)
    after = synchronise(before, layout)
    verify_sync(after, layout, "synchronise")
    (first, *_) = after.body[1:]
    assert isinstance(first, Barrier)
    assert barriers(after.body) == 1


def test_any_combination_of_many_arms_is_looked_at() -> None:
    """Seven branches in a row, each with a barrier in one arm: one way of 128 has none, and no listed path takes it."""
    wall = Barrier(scope=Scope.BLOCK, reason="")
    branches = [branch((), (wall,)) if at % 2 else branch((wall,)) for at in range(7)]
    before = kernel(store(A), *branches, copy_out(A))
    layout = allocate(before)
    with pytest.raises(InternalError, match="unordered, that another thread wrote"):
        verify_sync(before, layout, "synchronise")
    after = synchronise(before, layout)
    verify_sync(after, layout, "synchronise")
    assert barriers(after.body) == 8
    assert len(list(traces(before))) < 128
