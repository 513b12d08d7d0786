"""Barriers and waits: exactly those that small plans need, and never one too many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Barrier, Plan, PlanOp, SharedBuffer, SharedLayout, Team, Wait
from loomgen.passes.allocate import allocate
from loomgen.passes.synchronise import synchronise
from loomgen.passes.verify_sync import verify_sync
from tests.passes.support import (
    ONE_WARP,
    TWO_WARPS,
    buffer,
    copy_in,
    copy_out,
    describe,
    kernel,
    load,
    numbered_loop,
    ring_loop,
    store,
)

A, B = buffer("a"), buffer("b")
COMMIT = plan.Commit()


def lines(*body: PlanOp, team: Team = TWO_WARPS) -> list[str]:
    before = kernel(*body, team=team)
    layout = allocate(before)
    after = synchronise(before, layout)
    verify_sync(after, layout, "synchronise")
    return describe(after.body)


def test_a_thread_needs_no_barrier_for_its_own_copy_but_a_wait() -> None:
    assert lines(copy_in(A), COMMIT, copy_out(A)) == [
        "copy in a",
        "commit",
        "wait 0: write a -> read a",
        "copy out a",
    ]


def test_other_threads_need_a_barrier_after_the_wait() -> None:
    assert lines(copy_in(A), COMMIT, load(A)) == [
        "copy in a",
        "commit",
        "wait 0: write a -> read a",
        "block barrier: write a -> read a",
        "load a",
    ]


def test_a_wait_leaves_younger_groups_in_flight() -> None:
    assert lines(copy_in(A), COMMIT, copy_in(B), COMMIT, copy_out(A), copy_out(B)) == [
        "copy in a",
        "commit",
        "copy in b",
        "commit",
        "wait 1: write a -> read a",
        "copy out a",
        "wait 0: write b -> read b",
        "copy out b",
    ]


def test_a_warp_that_reads_its_own_rows_needs_nothing() -> None:
    assert lines(store(A), load(A)) == ["store a", "load a"]


def test_inside_one_warp_a_warp_barrier_is_enough() -> None:
    small = buffer("a", rows=16)
    assert lines(store(small), copy_out(small), team=ONE_WARP) == [
        "store a",
        "warp barrier: write a -> read a",
        "copy out a",
    ]


def test_between_warps_it_takes_the_block() -> None:
    assert lines(store(A), copy_out(A)) == ["store a", "block barrier: write a -> read a", "copy out a"]


def test_one_barrier_serves_every_pair_that_spans_it() -> None:
    assert lines(store(A), store(B), copy_out(A), copy_out(B)) == [
        "store a",
        "store b",
        "block barrier: write a, b -> read them",
        "copy out a",
        "copy out b",
    ]


def test_a_buffer_in_another_ones_place_waits_for_its_readers() -> None:
    """b takes a's bytes; what the barrier in between orders needs no second one."""
    assert lines(store(A), copy_out(A), store(B), copy_out(B)) == [
        "store a",
        "block barrier: write a -> read a",
        "copy out a",
        "block barrier: read a -> write b",
        "store b",
        "block barrier: write b -> read b",
        "copy out b",
    ]


def test_a_ring_needs_one_barrier_an_iteration() -> None:
    ring = buffer("r", slots=2)
    assert lines(*ring_loop(ring, load(ring))) == [
        "preload 1: r",
        "loop",
        "  wait 0: write r -> read r",
        "  block barrier: write r -> read r; read r -> write r_next",
        "  arrive r",
        "  prefetch 1: r",
        "  commit",
        "  load r",
    ]


def test_a_deeper_ring_keeps_a_group_in_flight() -> None:
    ring = buffer("r", slots=3)
    assert "  wait 1: write r -> read r" in lines(*ring_loop(ring, load(ring)))


def test_a_group_that_a_later_one_may_hold_is_not_closed_on_its_own() -> None:
    """Both copies are waited for at once, in a loop that always runs."""
    assert lines(copy_in(A), COMMIT, numbered_loop(4, copy_in(B), COMMIT, load(B)), copy_out(A)) == [
        "copy in a",
        "loop",
        "  block barrier: read b -> write b",
        "  copy in b",
        "  commit",
        "  wait 0: write b, a -> read them",
        "  block barrier: write b, a -> read them",
        "  load b",
        "copy out a",
    ]


def test_a_copy_that_is_never_committed_is_our_mistake() -> None:
    with pytest.raises(InternalError, match=r"synchronise: copy is never committed before its use: write a -> read a"):
        lines(copy_in(A), copy_out(A))


# --------------------------------------------------------------------------- whatever the plan, none too many


def without_one(ops: tuple[PlanOp, ...]) -> Iterator[tuple[PlanOp, ...]]:
    """The operations with one wait or barrier left out, in turn."""
    for at, op in enumerate(ops):
        rest = (ops[:at], ops[at + 1 :])
        if isinstance(op, Wait | Barrier):
            yield (*rest[0], *rest[1])
        if isinstance(op, plan.ChunkLoop):
            for body in without_one(op.body):
                yield (*rest[0], replace(op, body=body), *rest[1])


def is_ordered(body: tuple[PlanOp, ...], before: Plan, layout: SharedLayout) -> bool:
    try:
        verify_sync(replace(before, body=body), layout, "test")
    except InternalError:
        return False
    return True


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Writes of buffers and later reads of what was written, some of it in a loop."""
    team = draw(st.sampled_from([ONE_WARP, TWO_WARPS]))
    buffers = [buffer(name, rows=16 * team.slabs) for name in "abc"]
    body: list[PlanOp] = []
    written: list[SharedBuffer] = []
    for _ in range(draw(st.integers(1, 6))):
        is_read = draw(st.booleans())
        if written and is_read:
            of = written[draw(st.integers(0, len(written) - 1))]
            body.append(load(of) if draw(st.booleans()) else copy_out(of))
            continue
        to = draw(st.sampled_from(buffers))
        body += [copy_in(to), COMMIT] if draw(st.booleans()) else [store(to)]
        written.append(to)
    ring = replace(buffers[0], name="r", slots=2)
    more: list[tuple[PlanOp, ...]] = [(), (store(buffers[0]), copy_out(buffers[0]))]
    if draw(st.booleans()):
        body += ring_loop(ring, load(ring), *draw(st.sampled_from(more)))
    return kernel(*body, team=team)


@settings(max_examples=60, deadline=None)
@given(plans())
def test_without_any_one_of_them_something_is_unordered(before: Plan) -> None:
    layout = allocate(before)
    after = synchronise(before, layout)
    assert is_ordered(after.body, after, layout)
    for fewer in without_one(after.body):
        assert not is_ordered(fewer, after, layout), describe(fewer)
