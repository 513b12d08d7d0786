"""Tile IR -> Tile IR: an element-wise value that only one other element-wise value reads is computed there.

Before: one Map a statement of the spec, operands of products named apart. After: no Map of rank 2 is read by exactly
one Map (of the same block) and by nothing else, so what the spec names for the reader (a mask, a scaled copy) costs
neither registers nor shared memory. Rounding is part of the expression (Cast) and moves with it, so no bit changes.
Vectors stay: they are computed once, not once an element. What reads tensors stays, too, as does a run of a 16-bit
tile, and what combines several tiles and is not read by the very next statements: put off, all of them would have to be
kept instead of it.
"""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir import tile, walk
from loomgen.ir.tile import Expr, Map, Program, Stmt, TileRead


def fuse_maps(program: Program) -> Program:
    counts = walk.read_counts(program.body)
    return replace(program, body=walk.map_blocks(program.body, lambda block: _fuse_block(block, counts)))


def _fuse_block(block: tuple[Stmt, ...], counts: dict[str, int]) -> tuple[Stmt, ...]:
    pending: dict[str, Map] = {}
    fused: list[Stmt] = []
    readers = _map_readers(block)
    for stmt in block:
        if not isinstance(stmt, Map):
            fused.extend(pending.pop(name) for name in _combining(pending))
        if isinstance(stmt, Map):
            stmt = replace(stmt, expr=_once_per_condition(_inline(stmt.expr, pending)))
            is_single = counts.get(stmt.value.name) == 1 and stmt.value.name in readers
            if len(stmt.value.indices) == 2 and is_single and not _reads_tensors(stmt.expr) and not _is_run(stmt.expr):
                pending[stmt.value.name] = stmt
                continue
        fused.append(stmt)
    return tuple(fused)


def _combining(pending: dict[str, Map]) -> list[str]:
    """Those that read several tiles of two indices."""

    def n_tiles(expr: Expr) -> int:
        return len({read.value.name for read in walk.tile_reads(expr) if len(read.value.indices) == 2})

    return [name for name, stmt in pending.items() if n_tiles(stmt.expr) > 1]


def _reads_tensors(expr: Expr) -> bool:
    """Loads stay statements of their own, so that they stand together before their use."""
    return any(isinstance(node, tile.TensorRead) for node in walk.nodes(expr))


def _is_run(expr: Expr) -> bool:
    """A block of a 16-bit tile, which selection may bring whole."""
    return isinstance(expr, TileRead) and expr.letters is None and expr.dtype.is_half


def _map_readers(block: tuple[Stmt, ...]) -> frozenset[str]:
    """Names that a Map of this very block reads at its own indices, each at most once."""
    names: set[str] = set()
    for stmt in block:
        if isinstance(stmt, Map):
            names.update(read.value.name for read in walk.tile_reads(stmt.expr) if read.letters is not None)
    return frozenset(names)


def _inline(expr: Expr, pending: dict[str, Map]) -> Expr:
    def visit(node: Expr) -> Expr:
        if not isinstance(node, TileRead) or node.value.name not in pending:
            return node
        source = pending.pop(node.value.name)
        return _renamed(source, node)

    return walk.rewrite(expr, visit)


def _renamed(source: Map, read: TileRead) -> Expr:
    """The source's expression in the reader's letters, renamed all at once (a transposed read swaps them)."""
    letters = {index: sub.index for index, sub in zip(source.value.indices, read.subs, strict=True)}

    def visit(node: Expr) -> Expr:
        match node:
            case tile.IndexRead():
                return replace(node, index=letters.get(node.index) or node.index)
            case TileRead():
                subs = tuple(
                    sub if sub.index is None else replace(sub, index=letters.get(sub.index) or sub.index)
                    for sub in node.subs
                )
                return replace(node, subs=subs)
            case _:
                return node

    return walk.rewrite(source.expr, visit)


def _once_per_condition(expr: Expr) -> Expr:
    """Inside the arm that a condition selects, a select on the same condition is that arm of it."""

    def visit(node: Expr) -> Expr:
        if not isinstance(node, tile.Select):
            return node
        return replace(node, then=_assume(node.then, node.cond, True), orelse=_assume(node.orelse, node.cond, False))

    return walk.rewrite(expr, visit)


def _assume(expr: Expr, cond: Expr, holds: bool) -> Expr:
    def visit(node: Expr) -> Expr:
        if isinstance(node, tile.Select) and node.cond == cond:
            return node.then if holds else node.orelse
        return node

    return walk.rewrite(expr, visit)
