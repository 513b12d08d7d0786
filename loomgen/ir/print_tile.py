"""Tile IR as text: one line a statement, for ``loomgen explain`` and for tests."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import assert_never

from loomgen.ir.tile import (
    ArgRead,
    Binary,
    BinaryOp,
    Call,
    Carry,
    Cast,
    Concat,
    Const,
    Contract,
    Coord,
    DiagonalInverse,
    Expr,
    ForRange,
    ForWindow,
    Given,
    GridAxis,
    GridRead,
    If,
    IndexRead,
    Inverse,
    Load,
    Map,
    Program,
    Reduce,
    Scan,
    Select,
    Stmt,
    Store,
    Sub,
    Tensor,
    TensorRead,
    TileRead,
    Unary,
    UnaryOp,
    Window,
    WindowCoord,
    WindowKind,
    WindowRead,
)
from loomgen.ir.types import Value

_LEVELS = {BinaryOp.OR: 1, BinaryOp.AND: 2, BinaryOp.ADD: 5, BinaryOp.SUB: 5}
_COMPARE, _PRODUCT, _NOT, _SIGN, _ATOM = 4, 6, 3, 7, 8
_LEVELS |= dict.fromkeys((BinaryOp.MUL, BinaryOp.DIV, BinaryOp.FLOORDIV, BinaryOp.MOD), _PRODUCT)
_TIGHT = frozenset({BinaryOp.MUL, BinaryOp.DIV})


def print_program(program: Program) -> str:
    """The whole program, arguments first; ends with a newline."""
    lines = [f"stage {program.stage}"]
    lines.append("  dims " + ", ".join(f"{name} = {extent}" for name, extent in program.dims))
    if program.runtime_dims:
        lines.append("  run-time dims " + ", ".join(program.runtime_dims))
    lines += [f"  tensor {_tensor(tensor)}" for tensor in program.tensors]
    lines += [f"  scalar {scalar.name}: {scalar.dtype.value}" for scalar in program.scalars]
    lines += [f"  index {index.name} < {index.symbol} = {index.extent}" for index in program.indices]
    lines += [f"  grid {_axis(axis)}" for axis in program.grid]
    lines += [f"  {line}" for line in _block(program.body)]
    return "\n".join(lines) + "\n"


def _tensor(tensor: Tensor) -> str:
    shape = ", ".join(str(size) for size in tensor.shape)
    layout = "" if tensor.strides == "contiguous" else f", strides {tensor.strides}"
    optional = ", optional" if tensor.optional else ""
    return f"{tensor.name}: {tensor.access.value} {tensor.dtype.value} [{shape}]{layout}{optional}"


def _axis(axis: GridAxis) -> str:
    if axis.window is None:
        return f"{axis.name} < {axis.count}"
    extent = "" if axis.window.kind is WindowKind.SEQUENCE else f" of {axis.window.extent}"
    return f"{axis.name} < {axis.count}: {axis.window.kind.value}{extent}"


def _block(body: tuple[Stmt, ...]) -> Iterator[str]:
    if not body:
        yield "nothing"
    for stmt in body:
        yield from _statement(stmt)


def _statement(stmt: Stmt) -> Iterator[str]:
    match stmt:
        case Load():
            yield f"{stmt.value} = load {print_expr(stmt.source)}"
        case Map():
            yield f"{stmt.value} = {print_expr(stmt.expr)}"
        case Contract():
            yield f"{stmt.value} = {_product(stmt)}"
        case Reduce():
            over = ",".join(index.name for index in stmt.over)
            yield f"{stmt.value} = {stmt.op.value}[{over}] {print_expr(stmt.expr)}"
        case Scan():
            yield f"{stmt.value} = {stmt.op.value}[{stmt.along}] {print_expr(stmt.expr)}"
        case Inverse():
            yield f"{stmt.value} = inverse of 1 + {print_expr(stmt.source)}"
        case DiagonalInverse():
            yield f"{stmt.value} = inverses of the diagonal blocks of 1 + {print_expr(stmt.source)}"
        case Concat():
            yield f"{stmt.value} = concat({', '.join(part.name for part in stmt.parts)})"
        case Store():
            coords = ", ".join(print_coord(coord) for coord in stmt.coords)
            yield f"store {stmt.tensor.name}[{coords}] = {print_expr(stmt.source)}"
        case ForWindow():
            chunks = print_chunks(stmt.window, is_reversed=stmt.is_reversed)
            yield from _loop(f"for {stmt.window.name} in {chunks}", stmt.carried, stmt.body)
        case ForRange():
            bounds = f"{print_expr(stmt.begin)}, {print_expr(stmt.end)}"
            yield from _loop(f"for {stmt.name} in range({bounds})", stmt.carried, stmt.body)
        case If():
            yield from _branch(stmt)
        case _:
            assert_never(stmt)


def _product(stmt: Contract) -> str:
    seed = "" if stmt.seed is None else f"{print_expr(stmt.seed)} + "
    return f"{seed}{print_expr(stmt.a)} @ {print_expr(stmt.b)} over {stmt.over}"


def _loop(head: str, carried: tuple[Carry, ...], body: tuple[Stmt, ...]) -> Iterator[str]:
    yield f"{head}:"
    yield from (f"  carry {carry.inner} = {carry.init.name}, then {carry.update.name}" for carry in carried)
    yield from (f"  {line}" for line in _block(body))
    yield from (f"{carry.result} = {carry.inner.name} after the loop" for carry in carried)


def print_chunks(window: Window, *, is_reversed: bool) -> str:
    """What a loop runs over: ``chunks(n)``, or ``reversed(chunks(n))``."""
    chunks = f"chunks({window.parent})"
    return f"reversed({chunks})" if is_reversed else chunks


def _branch(stmt: If) -> Iterator[str]:
    yield f"if {print_expr(stmt.cond)}:"
    yield from (f"  {line}" for line in _block(stmt.then))
    if stmt.orelse:
        yield "else:"
        yield from (f"  {line}" for line in _block(stmt.orelse))
    yield from (f"{merge.result} = {merge.then.name} or {merge.orelse.name}" for merge in stmt.merges)


def print_coord(coord: Coord) -> str:
    """A coordinate of a tensor element: ``c[i]``, ``hv // (HV // H)``."""
    if isinstance(coord, WindowCoord):
        return f"{coord.window.name}[{print_expr(coord.offset)}]"
    return print_expr(coord)


def print_expr(expr: Expr, level: int = 0) -> str:
    """An element expression in the language's own notation, in parentheses where it binds looser than ``level``."""
    text, own = _expression(expr)
    return f"({text})" if own < level else text


def _expression(expr: Expr) -> tuple[str, int]:
    match expr:
        case TileRead():
            return _tile_read(expr.value, expr.subs), _ATOM
        case Const():
            return _constant(expr), _ATOM if isinstance(expr.value, bool) or expr.value >= 0 else _SIGN
        case ArgRead() | GridRead():
            return expr.name, _ATOM
        case IndexRead():
            return expr.index.name, _ATOM
        case WindowRead():
            return f"{expr.window.name}.{expr.field.value}", _ATOM
        case Given():
            return f"given({expr.tensor.name})", _ATOM
        case TensorRead():
            return f"{expr.tensor.name}[{', '.join(print_coord(coord) for coord in expr.coords)}]", _ATOM
        case Unary() | Binary() | Select():
            return _operation(expr)
        case Call():
            return f"{expr.function.value}({', '.join(print_expr(arg) for arg in expr.args)})", _ATOM
        case Cast():
            return f"{expr.dtype.value}({print_expr(expr.x)})", _ATOM
        case _:
            assert_never(expr)


def _operation(expr: Unary | Binary | Select) -> tuple[str, int]:
    match expr:
        case Unary(op=UnaryOp.NOT):
            return f"not {print_expr(expr.x, _NOT)}", _NOT
        case Unary():
            return f"-{print_expr(expr.x, _SIGN)}", _SIGN
        case Binary():
            level = _LEVELS.get(expr.op, _COMPARE)
            sign = expr.op.value if expr.op in _TIGHT else f" {expr.op.value} "
            return f"{print_expr(expr.a, level)}{sign}{print_expr(expr.b, level + 1)}", level
        case Select():
            then, cond = print_expr(expr.then, 1), print_expr(expr.cond, 1)
            return f"{then} if {cond} else {print_expr(expr.orelse)}", 0
        case _:
            assert_never(expr)


def _constant(expr: Const) -> str:
    if isinstance(expr.value, bool):
        return "true" if expr.value else "false"
    return repr(expr.value)


def _tile_read(value: Value, subs: tuple[Sub, ...]) -> str:
    if not subs:
        return value.name
    return f"{value.name}[{','.join(_sub(sub) for sub in subs)}]"


def _sub(sub: Sub) -> str:
    if sub.index is None:
        return str(sub.offset)
    return sub.index.name if sub.offset == 0 else f"{sub.index.name}+{sub.offset}"
