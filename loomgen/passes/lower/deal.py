"""Dealing elements to threads: one each in turn, or 16-byte chunks of a tile's rows."""

from __future__ import annotations

from loomgen.ir.device import Branch, CExpr, CStmt, Declare, For, Infix, Scope, add, mul, name, num
from loomgen.ir.plan import SharedBuffer
from loomgen.ir.types import Index
from loomgen.passes.lower.names import THREAD

CHUNK_BYTES = 16
_PASS = name("pass")


def deal_elements(letter: Index, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
    """``body`` for every value of an index letter, one a thread."""
    n_passes = -(-letter.extent // threads)
    first = THREAD if n_passes == 1 else add(mul(num(threads), _PASS), THREAD)
    return _passes(letter, first, threads, n_passes, (), body)


def deal_chunks(rows: Index, cols: Index, buffer: SharedBuffer, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
    """``body`` for the 16-byte chunks of a tile, row-major; the letters are bound to each chunk's first element."""
    per_chunk = CHUNK_BYTES // buffer.dtype.n_bytes
    per_row = cols.extent // per_chunk
    rows_per_pass = threads // per_row
    n_passes = -(-rows.extent // rows_per_pass)
    row: CExpr = Infix(op="/", a=THREAD, b=num(per_row)) if per_row > 1 else THREAD
    col = mul(num(per_chunk), Infix(op="%", a=THREAD, b=num(per_row))) if per_row > 1 else num(0)
    first = row if n_passes == 1 else add(mul(num(rows_per_pass), _PASS), row)
    column = Declare(type="const int", name=cols.name, init=col)
    return _passes(rows, first, rows_per_pass, n_passes, (column,), body)


def _passes(
    letter: Index, first: CExpr, per_pass: int, n_passes: int, declared: tuple[CStmt, ...], body: tuple[CStmt, ...]
) -> list[CStmt]:
    """``n_passes`` times: bind the letter, and guard the last pass where it is not full."""
    binding = Declare(type="const int", name=letter.name, init=first)
    is_ragged = letter.extent % per_pass != 0
    if n_passes == 1:
        inner = (binding, *declared, *body)
        in_range = Infix(op="<", a=first, b=num(letter.extent))
        return [Branch(cond=in_range, then=inner)] if is_ragged else [Scope(body=inner)]
    if is_ragged:
        body = (Branch(cond=Infix(op="<", a=name(letter.name), b=num(letter.extent)), then=body),)
    return [For(var="pass", begin=num(0), end=num(n_passes), unroll=True, body=(binding, *declared, *body))]
