"""Walking and rewriting Tile IR: the one place that knows each node's children."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from typing_extensions import assert_never

from loomgen.errors import Span
from loomgen.ir import tile
from loomgen.ir.tile import Expr, Stmt
from loomgen.ir.types import Index, Value


def children(expr: tile.Coord) -> tuple[tile.Coord, ...]:
    """The direct sub-expressions, window coordinates of a tensor read included."""
    match expr:
        case tile.TensorRead():
            return expr.coords
        case tile.WindowCoord():
            return (expr.offset,)
        case tile.Unary() | tile.Cast():
            return (expr.x,)
        case tile.Binary():
            return (expr.a, expr.b)
        case tile.Call():
            return expr.args
        case tile.Select():
            return (expr.cond, expr.then, expr.orelse)
        case (
            tile.TileRead()
            | tile.Const()
            | tile.ArgRead()
            | tile.IndexRead()
            | tile.GridRead()
            | tile.WindowRead()
            | tile.Given()
        ):
            return ()
        case _:
            assert_never(expr)


def map_children(expr: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The same node with ``f`` applied to its direct sub-expressions."""
    match expr:
        case tile.TensorRead():
            return replace(expr, coords=tuple(map_coord(coord, f) for coord in expr.coords))
        case tile.Unary() | tile.Cast():
            return replace(expr, x=f(expr.x))
        case tile.Binary():
            return replace(expr, a=f(expr.a), b=f(expr.b))
        case tile.Call():
            return replace(expr, args=tuple(f(arg) for arg in expr.args))
        case tile.Select():
            return replace(expr, cond=f(expr.cond), then=f(expr.then), orelse=f(expr.orelse))
        case (
            tile.TileRead()
            | tile.Const()
            | tile.ArgRead()
            | tile.IndexRead()
            | tile.GridRead()
            | tile.WindowRead()
            | tile.Given()
        ):
            return expr
        case _:
            assert_never(expr)


def map_coord(coord: tile.Coord, f: Callable[[Expr], Expr]) -> tile.Coord:
    """``f`` applied to a tensor subscript's expression."""
    if isinstance(coord, tile.WindowCoord):
        return replace(coord, offset=f(coord.offset))
    return f(coord)


def rewrite(expr: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Bottom-up: ``f`` sees each node after its children were rewritten."""
    return f(map_children(expr, lambda child: rewrite(child, f)))


def nodes(expr: tile.Coord) -> Iterator[tile.Coord]:
    """The expression and everything below it, parents first."""
    yield expr
    for child in children(expr):
        yield from nodes(child)


def tile_reads(expr: tile.Coord) -> Iterator[tile.TileRead]:
    return (node for node in nodes(expr) if isinstance(node, tile.TileRead))


def free_indices(expr: tile.Coord) -> frozenset[Index]:
    """The index letters that an expression depends on."""
    found: set[Index] = set()
    for node in nodes(expr):
        if isinstance(node, tile.IndexRead):
            found.add(node.index)
        if isinstance(node, tile.TileRead):
            found.update(sub.index for sub in node.subs if sub.index is not None)
    return frozenset(found)


def substitute_index(expr: Expr, index: Index, by: Index, offset: int) -> Expr:
    """``expr`` with ``index`` replaced by ``by + offset``."""

    def visit(node: Expr) -> Expr:
        match node:
            case tile.IndexRead() if node.index == index:
                read = replace(node, index=by)
                if offset == 0:
                    return read
                shift = tile.Const(value=offset, dtype=node.dtype, span=node.span)
                return tile.Binary(op=tile.BinaryOp.ADD, a=read, b=shift, dtype=node.dtype, span=node.span)
            case tile.TileRead():
                return replace(node, subs=tuple(_moved(sub, index, by, offset) for sub in node.subs))
            case _:
                return node

    return rewrite(expr, visit)


def _moved(sub: tile.Sub, index: Index, by: Index, offset: int) -> tile.Sub:
    return tile.Sub(index=by, offset=sub.offset + offset) if sub.index == index else sub


def bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks inside a control statement."""
    match stmt:
        case tile.ForWindow() | tile.ForRange():
            return (stmt.body,)
        case tile.If():
            return (stmt.then, stmt.orelse)
        case _:
            return ()


def expressions(stmt: Stmt) -> tuple[tile.Coord, ...]:
    """Every expression that the statement itself evaluates (not those of inner blocks)."""
    match stmt:
        case tile.Load():
            return (stmt.source,)
        case tile.Map() | tile.Reduce() | tile.Scan():
            return (stmt.expr,)
        case tile.Contract():
            return (stmt.a, stmt.b) if stmt.seed is None else (stmt.a, stmt.b, stmt.seed)
        case tile.Inverse() | tile.DiagonalInverse():
            return (stmt.source,)
        case tile.Concat():
            return tuple(whole(part, stmt.span) for part in stmt.parts)
        case tile.Store():
            return (*stmt.coords, stmt.source)
        case tile.ForWindow():
            return ()
        case tile.ForRange():
            return (stmt.begin, stmt.end)
        case tile.If():
            return (stmt.cond,)
        case _:
            assert_never(stmt)


def whole(value: Value, span: Span) -> tile.TileRead:
    """A read of every element of a tile in its own order."""
    return tile.TileRead(value=value, subs=tuple(tile.Sub(index=index) for index in value.indices), span=span)


def defined(stmt: Stmt) -> tuple[Value, ...]:
    """The values that exist after the statement because of it."""
    match stmt:
        case tile.Store():
            return ()
        case tile.ForWindow() | tile.ForRange():
            return tuple(carry.result for carry in stmt.carried)
        case tile.If():
            return tuple(merge.result for merge in stmt.merges)
        case _:
            return (stmt.value,)


def statements(block: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, outer before inner, in program order."""
    for stmt in block:
        yield stmt
        for body in bodies(stmt):
            yield from statements(body)


def map_blocks(block: tuple[Stmt, ...], f: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """``f`` applied to every block, inner blocks first."""

    def visit(stmt: Stmt) -> Stmt:
        match stmt:
            case tile.ForWindow() | tile.ForRange():
                return replace(stmt, body=map_blocks(stmt.body, f))
            case tile.If():
                return replace(stmt, then=map_blocks(stmt.then, f), orelse=map_blocks(stmt.orelse, f))
            case _:
                return stmt

    return f(tuple(visit(stmt) for stmt in block))


def read_counts(block: tuple[Stmt, ...]) -> dict[str, int]:
    """How often each value is read in the block, carries and merges included."""
    counts: dict[str, int] = {}

    def count(name: str) -> None:
        counts[name] = counts.get(name, 0) + 1

    for stmt in statements(block):
        for expr in expressions(stmt):
            for read in tile_reads(expr):
                count(read.value.name)
        if isinstance(stmt, tile.ForWindow | tile.ForRange):
            for carry in stmt.carried:
                count(carry.init.name)
                count(carry.update.name)
        if isinstance(stmt, tile.If):
            for merge in stmt.merges:
                count(merge.then.name)
                count(merge.orelse.name)
    return counts
