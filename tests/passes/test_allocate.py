"""Shared memory by liveness: exact offsets, and no two live buffers in one place."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from loomgen.ir.plan import PlanOp, SharedBuffer
from loomgen.passes.allocate import ALIGNMENT_BYTES, allocate
from tests.passes.support import buffer, copy_in, copy_out, everyone_reads, kernel, load, loop, ring_loop, store


def offsets(*body: PlanOp) -> tuple[dict[str, int], int]:
    layout = allocate(kernel(*body))
    return {buffer.name: at for buffer, at in layout.offsets}, layout.n_bytes


def test_a_buffer_takes_the_place_of_one_that_is_done_with() -> None:
    a, b, c = buffer("a"), buffer("b"), buffer("c")  # 2,048 bytes each
    assert offsets(copy_in(a), copy_in(b), load(a), store(c), load(b), copy_out(c)) == (
        {"a": 0, "b": 2048, "c": 0},
        4096,
    )


def test_what_a_loop_touches_lives_throughout_the_loop() -> None:
    a, b = buffer("a"), buffer("b")
    assert offsets(loop(store(a), copy_out(a), store(b), copy_out(b))) == ({"a": 0, "b": 2048}, 4096)


def test_a_ring_takes_all_its_slots() -> None:
    assert offsets(*ring_loop(buffer("r", slots=3)), store(buffer("a"))) == ({"r": 0, "a": 0}, 6144)


def test_offsets_are_aligned() -> None:
    a, b = buffer("a", rows=3), buffer("b")
    assert offsets(everyone_reads(a, b), everyone_reads(a, b)) == ({"b": 0, "a": 2048}, 2304)


def test_nothing_takes_nothing() -> None:
    assert offsets() == ({}, 0)


LIVES = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=10)


@given(LIVES)
def test_live_buffers_never_overlap(lives: list[tuple[int, int, int]]) -> None:
    buffers = [(buffer(f"b{n}", rows=rows), min(span), max(span)) for n, (rows, *span) in enumerate(lives)]
    touched = [[each for each, first, last in buffers if at in (first, last)] for at in range(8)]
    layout = allocate(kernel(*(everyone_reads(*each) for each in touched)))
    place: dict[SharedBuffer, int] = dict(layout.offsets)
    assert all(at % ALIGNMENT_BYTES == 0 and at + each.n_bytes <= layout.n_bytes for each, at in place.items())
    for (a, a_first, a_last), (b, b_first, b_last) in combinations(buffers, 2):
        if a_first <= b_last and b_first <= a_last:
            assert place[a] + a.n_bytes <= place[b] or place[b] + b.n_bytes <= place[a]
