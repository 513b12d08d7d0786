"""The replay finds every missing barrier and wait of the real kernels, and each kind of fault in small plans."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Barrier, PlanOp, Scope, SharedBuffer, SharedLayout, SharedRef, Wait
from loomgen.ir.tile import Const, ScanOp
from loomgen.ir.types import DType, Index, Value
from loomgen.passes.verify_sync import verify_sync
from tests.passes.gdn import ALL_STAGES, STAGES, lowered
from tests.passes.support import SPAN, X, buffer, copy_in, copy_out, kernel, load, loop, store

A, B = buffer("a"), buffer("b")
COMMIT = plan.Commit()
WAIT = Wait(pending=0, reason="")
BLOCK = Barrier(scope=Scope.BLOCK, reason="")
WARP = Barrier(scope=Scope.WARP, reason="")


def without_each(ops: tuple[PlanOp, ...]) -> Iterator[tuple[PlanOp, tuple[PlanOp, ...]]]:
    """(what was left out, the rest) for each barrier and wait, inside loops and branches too."""
    for at, op in enumerate(ops):
        before, after = ops[:at], ops[at + 1 :]
        match op:
            case Barrier() | Wait():
                yield op, (*before, *after)
            case plan.ChunkLoop() | plan.RangeLoop():
                for gone, body in without_each(op.body):
                    yield gone, (*before, replace(op, body=body), *after)
            case plan.Roles():
                for n, arm in enumerate(op.arms):
                    for gone, body in without_each(arm.body):
                        arms = (*op.arms[:n], replace(arm, body=body), *op.arms[n + 1 :])
                        yield gone, (*before, plan.Roles(arms=arms), *after)
            case plan.Conditional():
                for gone, then in without_each(op.then):
                    yield gone, (*before, replace(op, then=then), *after)
                for gone, orelse in without_each(op.orelse):
                    yield gone, (*before, replace(op, orelse=orelse), *after)
            case _:
                pass


WITHOUT_SYNCHRONISATION = {"paged_update", "meta", "slack", "gates"}
"""Stages whose threads read nothing that another one writes."""


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_every_barrier_and_wait_of_a_kernel_is_needed_and_missed(stage: str) -> None:
    whole = lowered(stage)
    verify_sync(whole.plan, whole.layout, "synchronise")
    mutants = list(without_each(whole.plan.body))
    assert mutants or stage in WITHOUT_SYNCHRONISATION
    for gone, body in mutants:
        with pytest.raises(InternalError, match="internal error in synchronise: "):
            verify_sync(replace(whole.plan, body=body), whole.layout, "synchronise")
            pytest.fail(f"not missed: {gone}")


def test_all_paths_of_the_kernels_are_replayed_quickly() -> None:
    kernels = [lowered(stage) for stage in STAGES]
    start = time.perf_counter()
    for each in kernels:
        verify_sync(each.plan, each.layout, "synchronise")
    assert time.perf_counter() - start < 5


# --------------------------------------------------------------------------- small plans


def at(*placed: tuple[SharedBuffer, int]) -> SharedLayout:
    return SharedLayout(offsets=placed, n_bytes=max(offset + each.n_bytes for each, offset in placed))


def fault(*body: PlanOp, layout: SharedLayout | None = None) -> str:
    """What the verifier says, or nothing."""
    try:
        verify_sync(kernel(*body), layout or at((A, 0), (B, A.n_bytes)), "pass")
    except InternalError as error:
        return str(error)
    return ""


def test_a_copy_is_touched_after_its_wait() -> None:
    assert fault(copy_in(A), COMMIT, WAIT, copy_out(A)) == ""
    assert "before the copy into it was waited for (a, byte 0)" in fault(copy_in(A), COMMIT, copy_out(A))
    assert "waited for" in fault(copy_in(A), WAIT, COMMIT, copy_out(A))
    assert "waited for" in fault(copy_in(A), COMMIT, copy_in(B), COMMIT, replace(WAIT, pending=2), copy_out(A))
    assert fault(copy_in(A), COMMIT, copy_in(B), COMMIT, replace(WAIT, pending=1), copy_out(A)) == ""


def test_a_pending_copy_is_not_written_over() -> None:
    assert "waited for" in fault(copy_in(A), COMMIT, copy_in(A), COMMIT)


def test_other_threads_need_a_barrier_after_the_wait() -> None:
    assert "reads a word, unordered" in fault(copy_in(A), COMMIT, WAIT, load(A))
    assert "reads a word, unordered" in fault(copy_in(A), COMMIT, BLOCK, WAIT, load(A))
    assert fault(copy_in(A), COMMIT, WAIT, BLOCK, load(A)) == ""


def test_a_warp_barrier_orders_a_warp_and_no_more() -> None:
    written = (copy_in(A), COMMIT, WAIT, BLOCK, load(A))
    assert fault(*written, WARP, store(A)) == ""
    assert "writes a word, unordered, that another thread read" in fault(*written, WARP, copy_in(A))
    assert fault(*written, BLOCK, copy_in(A)) == ""


def test_a_barrier_hands_on_what_its_threads_know() -> None:
    """Read by one warp, met by that warp alone, then by the block: the whole block knows the read to be over."""
    assert fault(copy_in(A), COMMIT, WAIT, BLOCK, load(A), WARP, BLOCK, copy_in(A)) == ""


def test_what_is_read_was_written_as_that_tile() -> None:
    assert "reads a word that nothing wrote (a, byte 0)" in fault(copy_out(A))
    together = at((A, 0), (B, 0))
    written = (copy_in(A), COMMIT, WAIT, BLOCK)
    assert "holds another tile" in fault(*written, copy_out(B), layout=together)
    assert "waited for" in fault(copy_in(A), COMMIT, copy_in(B), layout=together)


def test_words_are_physical() -> None:
    """Two buffers that share bytes conflict where their words do, swizzles and offsets applied."""
    half = replace(B, name="half", rows=16)
    stored = (copy_in(A), COMMIT, WAIT, BLOCK, load(A))
    second_half = at((A, 0), (half, A.n_bytes // 2))
    assert "another thread read" in fault(*stored, copy_in(half), layout=second_half)
    assert fault(*stored, copy_in(half), layout=at((A, 0), (half, A.n_bytes))) == ""


def test_a_ring_slot_holds_the_iteration_that_is_read() -> None:
    ring = buffer("r", slots=2)
    layout = at((ring, 0))
    fill = plan.Preload(window=loop().window, count=1, copies=(copy_in(ring),))
    ahead = plan.Prefetch(window=loop().window, ahead=1, copies=(copy_in(ring, 1),))
    good = (fill, loop(WAIT, BLOCK, ahead, COMMIT, load(ring)))
    assert fault(*good, layout=layout) == ""
    never_refilled = (fill, loop(WAIT, BLOCK, load(ring)))
    assert "that nothing wrote" in fault(*never_refilled, layout=layout)
    too_far = plan.Prefetch(window=loop().window, ahead=3, copies=(copy_in(ring, 3),))
    assert "nothing wrote" in fault(fill, loop(WAIT, BLOCK, too_far, COMMIT, load(ring)), layout=layout)
    stale = (replace(fill, count=2), loop(WAIT, BLOCK, load(ring), BLOCK, replace(ahead, ahead=9), COMMIT))
    assert "holds another tile or iteration" in fault(*stale, layout=layout)


def test_two_threads_do_not_write_a_word_at_once() -> None:
    overlapping = replace(A, dtype=DType.F32, pitch=0)
    assert "writes a word in two threads at once" in fault(store(overlapping), layout=at((overlapping, 0), (B, 4096)))


def test_threads_own_the_elements_of_a_narrow_vector() -> None:
    """Two 16-bit elements share four bytes and need no barrier: each is written and read by its own thread."""
    letter = Index(name="i", symbol="C", extent=32)
    vector = buffer("v", rows=1, cols=32)
    whole = SharedRef(buffer=vector, axes=(letter,))
    value = Value(name="v", dtype=DType.BF16, indices=(letter,))
    zero = Const(value=0.0, dtype=DType.BF16, span=SPAN)
    write = plan.MapShared(dst=whole, value=value, expr=zero, homes=(), text="v[i] = 0")
    read = plan.StoreScalars(tensor=X, coords=(), homes=(), src=whole, text="x[i] = v[i]")
    assert fault(write, read, layout=at((vector, 0))) == ""
    everyone = plan.ScanVector(
        dst=replace(whole, buffer=replace(vector, name="s")), src=whole, op=ScanOp.CUMSUM, text="s"
    )
    assert "reads a word, unordered" in fault(write, everyone, layout=at((vector, 0), (everyone.dst.buffer, 64)))
