"""Who touches which word: footprints of single operations, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator

from loomgen.ir import plan
from loomgen.ir.plan import Fragment, Leaf, RegisterTile, RowTile, SharedRef, Team
from loomgen.ir.types import DType, Index
from loomgen.passes.effects import Access, accesses
from tests.passes.support import ROWS, TWO_WARPS, D, buffer, copy_in, copy_out, load, ref, store

A = buffer("a")
SIXTEEN = Index(name="j", symbol="C", extent=16)
WORDS_A_ROW = 16


def only(op: Leaf, team: Team = TWO_WARPS) -> Access:
    (access,) = accesses(op, team)
    return access


def words_of(access: Access, thread: int) -> list[int]:
    return [int(word) for who, word in access.footprint if who == thread]


def test_a_copy_deals_sixteen_bytes_a_thread_in_turn() -> None:
    written, read = only(copy_in(A)), only(copy_out(A))
    assert (written.is_write, written.is_async, read.is_write, read.is_async) == (True, True, False, False)
    assert words_of(written, 3) == words_of(read, 3) == [12, 13, 14, 15, 268, 269, 270, 271]
    assert written.footprint.shape == (2 * 64 * 4, 2)


def test_matrix_accesses_belong_to_the_lane_that_gives_the_address() -> None:
    """Lane 17 of warp 1: row 16 + 1, the second eight columns of every sixteen."""
    row = 17 * WORDS_A_ROW
    for op in (load(A), store(A)):
        assert words_of(only(op), 32 + 17) == [*range(row + 4, row + 8), *range(row + 12, row + 16)]


def test_a_transposed_load_addresses_the_columns_of_the_buffer() -> None:
    """Lane 9 of warp 0: matrix 1, row 1 of the buffer, eight columns on."""
    tile = RegisterTile(name="t", dtype=DType.BF16, fragment=Fragment(rows=ROWS, cols=SIXTEEN, col_parts=1))
    square = buffer("s", rows=16, cols=32)
    op = plan.LoadFragment(dst=tile, src=SharedRef(buffer=square, axes=(SIXTEEN, ROWS)), transposed=True, text="t")
    assert words_of(only(op), 9) == [16 + 4, 16 + 5, 16 + 6, 16 + 7]


def test_a_fragment_of_words_is_stored_in_pairs() -> None:
    """Lane 5: rows 1 and 9, columns 2 and 3 of every eight."""
    f32 = RegisterTile(name="t", dtype=DType.F32, fragment=Fragment(rows=ROWS, cols=SIXTEEN, col_parts=1))
    op = plan.StoreFragment(dst=ref(buffer("w", cols=16, dtype=DType.F32)), src=f32, transposed=False, text="w")
    one, nine = 16 * 1, 16 * 9
    assert words_of(only(op), 5) == [one + 2, one + 3, one + 10, one + 11, nine + 2, nine + 3, nine + 10, nine + 11]


def test_partial_sums_are_read_by_the_partner_warp_alone() -> None:
    team = Team(slabs=1, parts=2)
    f32 = RegisterTile(name="t", dtype=DType.F32, fragment=Fragment(rows=ROWS, cols=SIXTEEN, col_parts=1))
    scratch = buffer("parts", rows=4, cols=128, dtype=DType.F32)
    written = only(plan.ExchangeWrite(src=f32, scratch=scratch, text="x"), team)
    read = only(plan.ExchangeRead(dst=f32, scratch=scratch, text="x"), team)
    assert words_of(written, 0) == [0, 1, 2, 3, 128, 129, 130, 131]
    assert words_of(read, 32) == words_of(written, 0)
    assert words_of(read, 0) == words_of(written, 32)


def test_partial_numbers_of_rows_are_written_by_the_first_lane_of_each_row() -> None:
    """Lane 8 of a warp: rows 2 and 10; it takes the partner's numbers, which are a row of 16 apart."""
    team = Team(slabs=1, parts=2)
    numbers = RowTile(name="r", dtype=DType.F32, layout=Fragment(rows=SIXTEEN, cols=D, col_parts=2))
    scratch = buffer("parts", rows=2, cols=16, dtype=DType.F32)
    written = only(plan.ExchangeWrite(src=numbers, scratch=scratch, text="x"), team)
    read = only(plan.ExchangeRead(dst=numbers, scratch=scratch, text="x"), team)
    assert [words_of(written, thread) for thread in (8, 9, 32 + 8)] == [[2, 10], [], [18, 26]]
    assert [words_of(read, thread) for thread in (8, 9, 32 + 8)] == [[18, 26], [18, 26], [2, 10]]


def test_operations_without_shared_memory_have_no_effects() -> None:
    move = plan.Move(dst=store(A).src, src=store(A).src, text="")
    assert list(effects_of(move, plan.Commit())) == []


def effects_of(*ops: Leaf) -> Iterator[Access]:
    for op in ops:
        yield from accesses(op, TWO_WARPS)
