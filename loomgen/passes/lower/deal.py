"""Dealing elements to threads: one each in turn, or 16-byte chunks of a tile's rows."""

from __future__ import annotations

from loomgen.ir.device import Branch, CExpr, CStmt, Declare, For, Infix, Scope, add, mul, name, num
from loomgen.ir.plan import SharedBuffer
from loomgen.ir.types import Index
from loomgen.passes.lower.names import THREAD
from loomgen.passes.lower.statics import extent

CHUNK_BYTES = 16
_PASS = name("$pass")


def deal_elements(letter: Index, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
    """``body`` for every value of an index letter, one a thread."""
    n_passes = -(-letter.extent // threads)
    first = THREAD if n_passes == 1 else add(mul(num(threads), _PASS), THREAD)
    return _passes(letter, first, n_passes, letter.extent % threads != 0, (), body)


def deal_chunks(rows: Index, cols: Index, buffer: SharedBuffer, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
    """``body`` for the 16-byte chunks of a tile, row-major; the letters are bound to each chunk's first element."""
    per_chunk = CHUNK_BYTES // buffer.dtype.n_bytes
    per_row = cols.extent // per_chunk
    if threads % per_row:
        return _deal_counted(rows, cols, per_chunk, threads, body)
    rows_per_pass = threads // per_row
    n_passes = -(-rows.extent // rows_per_pass)
    row: CExpr = Infix(op="/", a=THREAD, b=num(per_row)) if per_row > 1 else THREAD
    col = mul(num(per_chunk), Infix(op="%", a=THREAD, b=num(per_row))) if per_row > 1 else num(0)
    first = row if n_passes == 1 else add(mul(num(rows_per_pass), _PASS), row)
    column = Declare(type="const int", name=cols.name, init=col)
    return _passes(rows, first, n_passes, rows.extent % rows_per_pass != 0, (column,), body)


def _deal_counted(rows: Index, cols: Index, per_chunk: int, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
    """The same where the threads are no whole number of rows: a pass may end inside a row."""
    per_row = cols.extent // per_chunk
    n_chunks = rows.extent * per_row
    n_passes = -(-n_chunks // threads)
    chunk = THREAD if n_passes == 1 else add(mul(num(threads), _PASS), THREAD)
    row = Infix(op="/", a=chunk, b=num(per_row))
    col = mul(num(per_chunk), Infix(op="%", a=chunk, b=num(per_row)))
    column = Declare(type="const int", name=cols.name, init=col)
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
