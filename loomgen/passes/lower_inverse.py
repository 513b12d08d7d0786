"""Tile IR -> Tile IR: the triangular inverse becomes 16x16 diagonal inverses and small products.

Before: ``U[i,j] = unit_lower_inverse(L[i,j])``.
After: no Inverse. Where all that reads U is element-wise, its readers are computed block by block; elsewhere U is put
together. With X = (I + L)^-1 cut into 16-row blocks X_r, and D_r the inverse of diagonal block r,

    X_r = D_r (E_r - sum over m < r of L_rm X_m)          (E_r: rows r of the identity)

Transposed, X_r^T[j, a] has its rows j with one warp each, so the whole recursion stays in registers: every product
takes the previous blocks as its A operand and L or D from shared memory as B. Operands are rounded to tf32, sums are
fp32; powers of L are never formed, so nothing cancels or overflows that the inverse itself does not contain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from loomgen.errors import Span
from loomgen.ir import tile, walk
from loomgen.ir.tile import Concat, Contract, DiagonalInverse, Expr, Inverse, Map, Program, Stmt, Sub, TileRead
from loomgen.ir.types import DType, Index, Value
from loomgen.passes.select_rules import reject
from loomgen.spec.codes import Code
from loomgen.spec.declarations import BLOCK_LETTERS

BLOCK = 16
_A, _B = (Index(name=name, symbol="16", extent=BLOCK) for name in BLOCK_LETTERS)


def lower_inverse(program: Program) -> Program:
    taken = frozenset(value.name for stmt in walk.statements(program.body) for value in walk.defined(stmt))
    bases = _bases(taken)
    return replace(program, body=walk.map_blocks(program.body, lambda block: _lower_block(block, bases)))


def _bases(names: frozenset[str]) -> dict[str, str]:
    """What the pieces of each value are named after: its name, or a longer one where the program has such names."""
    bases: dict[str, str] = {}
    for name in sorted(names):
        base = name
        while _is_used(base, names) or (base != name and base in {*names, *bases.values()}):
            base += "x"
        bases[name] = base
    return bases


def _is_used(base: str, names: frozenset[str]) -> bool:
    return any(re.fullmatch(rf"{base}(\d+(_\w+)?|_tf32|_diag)", name) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """An inverse in pieces: block r, transposed, as an f32 value [j, a16]."""

    value: Value
    parts: tuple[Value, ...]


def _lower_block(block: tuple[Stmt, ...], bases: dict[str, str]) -> tuple[Stmt, ...]:
    inverses: dict[str, _Blocks] = {}
    values = frozenset(stmt.value for stmt in block if isinstance(stmt, Inverse))
    lowered: list[Stmt] = []
    for at, stmt in enumerate(block):
        if isinstance(stmt, Inverse):
            statements, blocks = _lower(stmt, bases[stmt.value.name])
            lowered.extend(statements)
            later = [reader for reader in walk.statements(block[at + 1 :]) if _reads(reader, stmt.value)]
            if all(_is_straight(reader, stmt.value, values) and reader in block for reader in later):
                inverses[stmt.value.name] = blocks
            else:
                lowered.append(Concat(value=stmt.value, parts=blocks.parts, text=stmt.text, span=stmt.span))
            continue
        read = next((blocks for blocks in inverses.values() if _reads(stmt, blocks.value)), None)
        if read is not None and isinstance(stmt, Map):
            lowered.extend(_distribute(stmt, bases[stmt.value.name], read))
        else:
            lowered.append(stmt)
    return tuple(lowered)


def _reads(stmt: Stmt, value: Value) -> bool:
    return any(read.value == value for expr in walk.expressions(stmt) for read in walk.tile_reads(expr))


def _is_straight(stmt: Stmt, value: Value, inverses: frozenset[Value]) -> bool:
    """An element-wise statement whose element (i, j) needs element (i, j) of the value, and no other inverse."""
    if not isinstance(stmt, Map) or len(stmt.value.indices) != 2:
        return False
    subs = tuple(Sub(index=index) for index in stmt.value.indices)
    reads = [read for read in walk.tile_reads(stmt.expr) if read.value in inverses]
    return all(read.value == value and read.subs == subs for read in reads)


def _lower(stmt: Inverse, base: str) -> tuple[list[Stmt], _Blocks]:
    i, j = stmt.value.indices
    text, span = stmt.text, stmt.span
    if i.extent % BLOCK:
        message = f"{stmt.value} is no whole number of blocks of {BLOCK}"
        raise reject(span, Code.TILE_COLUMNS, message, f"pad the dim to a multiple of {BLOCK}")
    rounded = Value(name=f"{base}_tf32", dtype=DType.TF32, indices=(i, j))
    diagonal = Value(name=f"{base}_diag", dtype=DType.TF32, indices=(i, _B))
    source = tile.Cast(x=stmt.source, dtype=DType.TF32, span=span)
    out: list[Stmt] = [
        Map(value=rounded, expr=source, text=text, span=span),
        DiagonalInverse(value=diagonal, source=walk.whole(rounded, span), text=text, span=span),
    ]
    parts: list[Value] = []
    for r in range(i.extent // BLOCK):
        statements, part = _block_row(stmt, base, r, parts, rounded, diagonal)
        out.extend(statements)
        parts.append(part)
    return out, _Blocks(value=stmt.value, parts=tuple(parts))


def _block_row(
    stmt: Inverse, base: str, r: int, previous: list[Value], rounded: Value, diagonal: Value
) -> tuple[list[Stmt], Value]:
    """Statements for X_r^T and the value that holds it."""
    j, text, span = stmt.value.indices[1], stmt.text, stmt.span
    out: list[Stmt] = []
    total: TileRead | None = None
    for m, part in enumerate(previous):
        operand = Value(name=f"{base}{m}_t", dtype=DType.TF32, indices=(j, _A))
        if m == r - 1:
            expr = tile.Cast(x=walk.whole(part, span), dtype=DType.TF32, span=span)
            out.append(Map(value=operand, expr=expr, text=text, span=span))
        partial = Value(name=f"{base}{r}_sum" + (f"{m}" if m else ""), dtype=DType.F32, indices=(j, _A))
        block = TileRead(
            value=rounded, subs=(Sub(index=_A, offset=BLOCK * r), Sub(index=_B, offset=BLOCK * m)), span=span
        )
        factor = TileRead(value=operand, subs=(Sub(index=j), Sub(index=_B)), span=span)
        out.append(Contract(value=partial, a=factor, b=block, over=_B, seed=total, text=text, span=span))
        total = walk.whole(partial, span)
    right = Value(name=f"{base}{r}_rhs", dtype=DType.TF32, indices=(j, _B))
    out.append(Map(value=right, expr=_identity_minus(r, j, total, span), text=text, span=span))
    result = Value(name=f"{base}{r}", dtype=DType.F32, indices=(j, _A))
    inverse = TileRead(value=diagonal, subs=(Sub(index=_A, offset=BLOCK * r), Sub(index=_B)), span=span)
    out.append(Contract(value=result, a=walk.whole(right, span), b=inverse, over=_B, seed=None, text=text, span=span))
    return out, result


def _identity_minus(r: int, j: Index, total: TileRead | None, span: Span) -> Expr:
    """tf32((1 if j == 16r + b else 0) - total[j, b])."""
    column: Expr = tile.IndexRead(index=_B, span=span)
    if r > 0:
        first = tile.Const(value=BLOCK * r, dtype=DType.I32, span=span)
        column = tile.Binary(op=tile.BinaryOp.ADD, a=column, b=first, dtype=DType.I32, span=span)
    on_diagonal = tile.Binary(
        op=tile.BinaryOp.EQ, a=tile.IndexRead(index=j, span=span), b=column, dtype=DType.BOOL, span=span
    )
    one = tile.Const(value=1.0, dtype=DType.F32, span=span)
    zero = tile.Const(value=0.0, dtype=DType.F32, span=span)
    identity: Expr = tile.Select(cond=on_diagonal, then=one, orelse=zero, dtype=DType.F32, span=span)
    if total is not None:
        summed = TileRead(value=total.value, subs=(Sub(index=j), Sub(index=_B)), span=span)
        identity = tile.Binary(op=tile.BinaryOp.SUB, a=identity, b=summed, dtype=DType.F32, span=span)
    return tile.Cast(x=identity, dtype=DType.TF32, span=span)


def _distribute(stmt: Map, base: str, blocks: _Blocks) -> list[Stmt]:
    """An element-wise reader of the inverse, block by block, then put together."""
    i, j = stmt.value.indices
    out: list[Stmt] = []
    parts: list[Value] = []
    for r, part in enumerate(blocks.parts):
        value = Value(name=f"{base}{r}", dtype=stmt.value.dtype, indices=(j, _A))
        expr = walk.substitute_index(_replace_reads(stmt.expr, blocks.value, part, i, j), i, _A, BLOCK * r)
        out.append(Map(value=value, expr=expr, text=stmt.text, span=stmt.span))
        parts.append(value)
    out.append(Concat(value=stmt.value, parts=tuple(parts), text=stmt.text, span=stmt.span))
    return out


def _replace_reads(expr: Expr, inverse: Value, part: Value, i: Index, j: Index) -> Expr:
    def visit(node: Expr) -> Expr:
        if not isinstance(node, TileRead) or node.value != inverse:
            return node
        return TileRead(value=part, subs=(Sub(index=j), Sub(index=_A)), span=node.span)

    return walk.rewrite(expr, visit)
