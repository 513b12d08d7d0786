"""Dealing elements to threads: one each in turn, or 16-byte chunks of a tile's rows."""

from __future__ import annotations

from dataclasses import dataclass

from loomgen.ir.device import Branch, CExpr, CStmt, Declare, For, Infix, Scope, add, mul, name, num
from loomgen.ir.plan import WARP_THREADS, Fragment, SharedBuffer, Team
from loomgen.ir.types import Index
from loomgen.passes.lower.layouts import first_col
from loomgen.passes.lower.names import LANE, PART, THREAD, slab_row
from loomgen.passes.lower.statics import extent

CHUNK_BYTES = 16
SLAB_ROWS = 16
PASS = name("$pass")


def deal_elements(letter: Index, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
    """``body`` for every value of an index letter, one a thread."""
    n_passes = -(-letter.extent // threads)
    first = THREAD if n_passes == 1 else add(mul(num(threads), PASS), THREAD)
    return _passes(letter, first, n_passes, letter.extent % threads != 0, (), body)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDeal:
    """16-byte chunks of a tile, row-major, ``rows_per_pass`` whole rows at a time: this thread's first row and its
    column, which is the same in every pass. ``only_first_part``: the other parts have no share.
    """

    rows: Index
    cols: Index
    first_row: CExpr
    col: CExpr
    rows_per_pass: int
    n_passes: int
    is_ragged: bool
    only_first_part: bool = False

    def of(self, body: tuple[CStmt, ...]) -> list[CStmt]:
        """``body`` for each of the thread's chunks; the letters are bound to its first element."""
        step = mul(num(self.rows_per_pass), PASS)
        row = self.first_row if self.n_passes == 1 else _stepped(self.first_row, step)
        column = Declare(type="const int", name=self.cols.name, init=self.col)
        dealt = _passes(self.rows, row, self.n_passes, self.is_ragged, (column,), body)
        if self.only_first_part:
            return [Branch(cond=Infix(op="==", a=PART, b=num(0)), then=tuple(dealt))]
        return dealt


def _stepped(first: CExpr, step: CExpr) -> CExpr:
    """The row of a pass: the slab's rows first, where there are any."""
    if isinstance(first, Infix) and first.op == "+":
        return add(add(first.a, step), first.b)
    return add(step, first)


def deal_rows(rows: Index, cols: Index, buffer: SharedBuffer, threads: int) -> RowDeal | None:
    """A tile among all threads; None where they are no whole number of rows."""
    per_chunk = CHUNK_BYTES // buffer.dtype.n_bytes
    per_row = cols.extent // per_chunk
    if threads % per_row:
        return None
    rows_per_pass = threads // per_row
    return RowDeal(
        rows=rows,
        cols=cols,
        first_row=Infix(op="/", a=THREAD, b=num(per_row)) if per_row > 1 else THREAD,
        col=_column(THREAD, per_chunk, per_row),
        rows_per_pass=rows_per_pass,
        n_passes=-(-rows.extent // rows_per_pass),
        is_ragged=rows.extent % rows_per_pass != 0,
    )


def deal_warp_rows(fragment: Fragment, buffer: SharedBuffer, team: Team) -> RowDeal:
    """What each warp holds of a fragment, a warp its own; of what all parts hold, the first part's."""
    per_chunk = CHUNK_BYTES // buffer.dtype.n_bytes
    per_row = fragment.local_cols // per_chunk
    rows_per_pass = WARP_THREADS // per_row
    return RowDeal(
        rows=fragment.rows,
        cols=fragment.cols,
        first_row=slab_row(Infix(op="/", a=LANE, b=num(per_row)) if per_row > 1 else LANE),
        col=add(first_col(fragment, team), _column(LANE, per_chunk, per_row)),
        rows_per_pass=rows_per_pass,
        n_passes=SLAB_ROWS // rows_per_pass,
        is_ragged=False,
        only_first_part=team.parts > 1 and fragment.col_parts == 1,
    )


def _column(worker: CExpr, per_chunk: int, per_row: int) -> CExpr:
    return mul(num(per_chunk), Infix(op="%", a=worker, b=num(per_row))) if per_row > 1 else num(0)


def deal_chunks(rows: Index, cols: Index, buffer: SharedBuffer, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
    """``body`` for the 16-byte chunks of a tile, row-major; the letters are bound to each chunk's first element."""
    dealt = deal_rows(rows, cols, buffer, threads)
    return _deal_counted(rows, cols, buffer, threads, body) if dealt is None else dealt.of(body)


def _deal_counted(rows: Index, cols: Index, buffer: SharedBuffer, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
    """The same where the threads are no whole number of rows: a pass may end inside a row."""
    per_chunk = CHUNK_BYTES // buffer.dtype.n_bytes
    per_row = cols.extent // per_chunk
    n_chunks = rows.extent * per_row
    n_passes = -(-n_chunks // threads)
    chunk = THREAD if n_passes == 1 else add(mul(num(threads), PASS), THREAD)
    row = Infix(op="/", a=chunk, b=num(per_row))
    column = Declare(type="const int", name=cols.name, init=_column(chunk, per_chunk, per_row))
    return _passes(rows, row, n_passes, n_chunks % threads != 0, (column,), body)


def _passes(
    letter: Index, first: CExpr, n_passes: int, is_ragged: bool, declared: tuple[CStmt, ...], body: tuple[CStmt, ...]
) -> list[CStmt]:
    """``n_passes`` times: bind the letter, and guard it where the last pass is not full."""
    binding = Declare(type="const int", name=letter.name, init=first)
    if n_passes == 1:
        inner = (binding, *declared, *body)
        in_range = Infix(op="<", a=first, b=extent(letter))
        return [Branch(cond=in_range, then=inner)] if is_ragged else [Scope(body=inner)]
    if is_ragged:
        body = (Branch(cond=Infix(op="<", a=name(letter.name), b=extent(letter)), then=body),)
    return [For(var="$pass", begin=num(0), end=num(n_passes), unroll=True, body=(binding, *declared, *body))]
