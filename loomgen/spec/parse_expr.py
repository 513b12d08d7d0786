"""Element expressions: syntax to typed Tile IR. Operators such as ``@`` are statements before this runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeGuard

from loomgen.ir.tile import (
    ArgRead,
    Binary,
    BinaryOp,
    Const,
    Coord,
    Expr,
    Given,
    GridRead,
    IndexRead,
    Sub,
    TensorRead,
    TileRead,
    Window,
    WindowCoord,
    WindowField,
    WindowKind,
    WindowRead,
)
from loomgen.ir.types import DType, Index
from loomgen.spec import check_types as types
from loomgen.spec.check_indices import (
    check_coordinate,
    check_element,
    check_run,
    check_tile_letter,
    check_window_letter,
    subscripts,
)
from loomgen.spec.codes import Code
from loomgen.spec.declarations import CONSTANTS, FUNCTIONS
from loomgen.spec.report import Reject, Skip, did_you_mean
from loomgen.spec.scope import Context
from loomgen.spec.statics import fold

_BINARY: Mapping[type[ast.operator], BinaryOp] = {
    ast.Add: BinaryOp.ADD,
    ast.Sub: BinaryOp.SUB,
    ast.Mult: BinaryOp.MUL,
    ast.Div: BinaryOp.DIV,
    ast.FloorDiv: BinaryOp.FLOORDIV,
    ast.Mod: BinaryOp.MOD,
}
_COMPARISON: Mapping[type[ast.cmpop], BinaryOp] = {
    ast.Eq: BinaryOp.EQ,
    ast.NotEq: BinaryOp.NE,
    ast.Lt: BinaryOp.LT,
    ast.LtE: BinaryOp.LE,
    ast.Gt: BinaryOp.GT,
    ast.GtE: BinaryOp.GE,
}
_SEGMENT_FIELDS = frozenset({"first", "index", "ends"})


def lower_expr(ctx: Context, node: ast.expr, want: DType | None = None) -> Expr:
    """The typed expression; ``want`` is the dtype of a literal that nothing else types. Raises Reject or Skip."""
    if node in ctx.hoisted:
        return ctx.hoisted[node]
    number = fold(node, ctx.declarations.statics)
    if number is not None:
        return types.constant(number, want, ctx.text.span(node))
    match node:
        case ast.Name():
            return _lower_name(ctx, node)
        case ast.Subscript():
            return _lower_subscript(ctx, node)
        case ast.Attribute():
            return _lower_field(ctx, node)
        case ast.Call():
            return _lower_call(ctx, node, want)
        case ast.IfExp():
            return _lower_select(ctx, node, want)
        case _:
            return _lower_operation(ctx, node, want)


def lower_index(ctx: Context, node: ast.expr) -> Expr:
    """An integer inside a subscript. Raises :class:`Reject` when it is none."""
    expr = lower_expr(replace(ctx, in_subscript=True), node, DType.I32)
    if not types.is_integer(expr.dtype):
        raise Reject(Code.WRONG_COORDINATE, expr.span, f"a subscript is an integer, this is {expr.dtype.value}")
    return expr


# --------------------------------------------------------------------------- names


def _lower_name(ctx: Context, node: ast.Name) -> Expr:
    name, span, known = node.id, ctx.text.span(node), ctx.declarations
    if name in known.indices:
        return IndexRead(index=bound_index(ctx, node), span=span)
    if name in ctx.scope.windows or name in ctx.scope.counters:
        return GridRead(name=name, span=span)
    if name in known.where:
        return known.where[name]
    if name in known.scalars:
        return ArgRead(name=name, dtype=known.scalars[name].dtype, span=span)
    if name in CONSTANTS:
        return Const(value=CONSTANTS[name], dtype=DType.F32, span=span)
    if name in known.tensors:
        raise Reject(Code.WRONG_RANK, span, f"tensor `{name}` needs its subscripts")
    if name in known.runtime_dims:
        return ArgRead(name=name, dtype=DType.I32, span=span)
    if name in known.statics.params:
        hint = f'compare it: `if {name} == "..."`'
        raise Reject(Code.NOT_STATIC, span, f"parameter `{name}` is not a number", hint)
    return _read_tile(ctx, node, node, [])


def bound_index(ctx: Context, node: ast.Name) -> Index:
    """The index of a letter that the left side or an operator binds. Raises :class:`Reject`."""
    if node.id in ctx.bound:
        return ctx.declarations.indices[node.id]
    message = f"index `{node.id}` is neither on the left nor summed"
    raise Reject(Code.UNBOUND_INDEX, ctx.text.span(node), message)


def _unknown(ctx: Context, node: ast.Name) -> Reject:
    name, span = node.id, ctx.text.span(node)
    if name in ctx.scope.lost:
        return Reject(Code.MAYBE_UNASSIGNED, span, f"`{name}` is assigned {ctx.scope.lost[name]}")
    known = (*ctx.declarations.known_names(), *ctx.scope.values, *ctx.scope.windows, *ctx.scope.counters)
    return Reject(Code.UNKNOWN_NAME, span, f"unknown name `{name}`", did_you_mean(name, known))


def _read_tile(ctx: Context, node: ast.expr, base: ast.Name, subs: list[ast.expr]) -> TileRead:
    if base.id in ctx.scope.poisoned:
        raise Skip
    if base.id not in ctx.scope.values:
        raise _unknown(ctx, base)
    value, span = ctx.scope.values[base.id], ctx.text.span(node)
    if len(subs) != len(value.indices):
        message = f"`{base.id}` has {len(value.indices)} indices, {len(subs)} subscripts stand here"
        raise Reject(Code.WRONG_RANK, span, message)
    lowered = tuple(_tile_subscript(ctx, part, axis) for part, axis in zip(subs, value.indices, strict=True))
    return TileRead(value=value, subs=lowered, span=span)


def _tile_subscript(ctx: Context, node: ast.expr, axis: Index) -> Sub:
    span = ctx.text.span(node)
    element = fold(node, ctx.declarations.statics)
    if isinstance(element, int):
        check_element(element, axis, span)
        return Sub(index=None, offset=element)
    if isinstance(node, ast.Name) and node.id in ctx.declarations.indices:
        letter = bound_index(ctx, node)
        check_tile_letter(letter, axis, span)
        return Sub(index=letter)
    if (run := _run(ctx, node)) is not None:
        check_run(*run, axis, span)
        return Sub(index=run[0], offset=run[1])
    hint = "tiles take letters, runs such as i+C and static elements; only tensors take run-time coordinates"
    raise Reject(Code.RUN_TIME_SUBSCRIPT, span, "a tile has static subscripts", hint)


def _run(ctx: Context, node: ast.expr) -> tuple[Index, int] | None:
    """The letter and the first element of ``b + C``: as many elements as the letter has, whatever its symbol."""
    terms = list(_terms(node, 1))
    letters = [term for sign, term in terms if sign > 0 and _is_letter(term, ctx)]
    firsts = [(sign, fold(term, ctx.declarations.statics)) for sign, term in terms if not _is_letter(term, ctx)]
    numbers = [sign * first for sign, first in firsts if isinstance(first, int)]
    if len(letters) != 1 or len(numbers) != len(terms) - 1:
        return None
    return bound_index(ctx, letters[0]), sum(numbers)


def _is_letter(node: ast.expr, ctx: Context) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and node.id in ctx.declarations.indices


def _terms(node: ast.expr, sign: int) -> Iterator[tuple[int, ast.expr]]:
    """What ``node`` adds and, with -1, subtracts."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from (*_terms(left, sign), *_terms(right, sign))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield from (*_terms(left, sign), *_terms(right, -sign))
        case _:
            yield sign, node


# --------------------------------------------------------------------------- tensors and windows


def _lower_subscript(ctx: Context, node: ast.Subscript) -> Expr:
    if not isinstance(node.value, ast.Name):
        raise Reject(Code.NOT_IN_LANGUAGE, ctx.text.span(node), "only names are subscripted")
    base = node.value
    if base.id in ctx.declarations.tensors:
        coords = lower_coords(ctx, base.id, node)
        return TensorRead(tensor=ctx.declarations.tensors[base.id], coords=coords, span=ctx.text.span(node))
    if base.id in ctx.scope.windows:
        return _window_element(ctx, node, ctx.scope.windows[base.id])
    if ctx.declarations.declares(base.id) or base.id in ctx.scope.counters:
        raise Reject(Code.WRONG_RANK, ctx.text.span(node), f"`{base.id}` has no subscripts")
    return _read_tile(ctx, node, base, subscripts(node))


def _window_element(ctx: Context, node: ast.Subscript, window: Window) -> Expr:
    span = ctx.text.span(node)
    if window.kind is not WindowKind.BLOCK or not ctx.in_subscript:
        message = f"`{window.name}[...]` stands for an element of a tensor dimension, alone in its subscript"
        raise Reject(Code.WINDOW_OUTSIDE_TENSOR, span, message)
    coord = _window_coord(ctx, node, window)
    extent = Const(value=window.extent, dtype=DType.I32, span=span)
    ordinal = GridRead(name=window.name, span=span)
    start = Binary(op=BinaryOp.MUL, a=ordinal, b=extent, dtype=DType.I32, span=span)
    return Binary(op=BinaryOp.ADD, a=start, b=coord.offset, dtype=DType.I32, span=span)


def lower_coords(ctx: Context, name: str, node: ast.Subscript) -> tuple[Coord, ...]:
    """The coordinates of a tensor element, on either side of a statement. Raises :class:`Reject`."""
    tensor, parts = ctx.declarations.tensors[name], subscripts(node)
    if len(parts) != len(tensor.shape):
        message = f"tensor `{name}` has {len(tensor.shape)} dimensions, {len(parts)} coordinates stand here"
        raise Reject(Code.WRONG_RANK, ctx.text.span(node), message)
    coords = tuple(_lower_coord(ctx, part) for part in parts)
    for axis, coord in enumerate(coords):
        check_coordinate(tensor, axis, coord, ctx.declarations)
    return coords


def _lower_coord(ctx: Context, node: ast.expr) -> Coord:
    match node:
        case ast.Subscript(value=ast.Name(id=name)) if name in ctx.scope.windows:
            return _window_coord(ctx, node, ctx.scope.windows[name])
        case _:
            return lower_index(ctx, node)


def _window_coord(ctx: Context, node: ast.Subscript, window: Window) -> WindowCoord:
    span, inner = ctx.text.span(node), subscripts(node)
    if len(inner) != 1:
        raise Reject(Code.WRONG_RANK, span, f"window `{window.name}` has one subscript")
    offset = lower_index(ctx, inner[0])
    check_window_letter(window, offset, span)
    return WindowCoord(window=window, offset=offset, span=span)


def _lower_field(ctx: Context, node: ast.Attribute) -> Expr:
    span = ctx.text.span(node)
    window = ctx.scope.windows.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if node.attr in _SEGMENT_FIELDS:
        raise Reject(Code.SEGMENTS, span, f"`.{node.attr}` belongs to segments, which this version does not have")
    fields = {field.value: field for field in WindowField}
    if window is None or node.attr not in fields:
        hint = did_you_mean(node.attr, fields) if window is not None else "only windows have fields"
        raise Reject(Code.WINDOW_MISUSE, span, f"no field `.{node.attr}` here", hint)
    if window.kind is WindowKind.BLOCK or (node.attr == "pos" and window.parent is None):
        message = f"window `{window.name}` has no `.{node.attr}`"
        raise Reject(Code.WINDOW_MISUSE, span, message, "`.pos` is the place of a chunk in the sequence of its loop")
    return WindowRead(window=window, field=fields[node.attr], span=span)


# --------------------------------------------------------------------------- operations


def _lower_operation(ctx: Context, node: ast.expr, want: DType | None) -> Expr:
    span = ctx.text.span(node)
    match node:
        case ast.BinOp() if type(node.op) in _BINARY:
            a, b = _lower_pair(ctx, node.left, node.right, want)
            return types.binary(_BINARY[type(node.op)], a, b, span)
        case ast.Compare():
            return _lower_comparison(ctx, node)
        case ast.BoolOp():
            op = BinaryOp.AND if isinstance(node.op, ast.And) else BinaryOp.OR
            result = lower_expr(ctx, node.values[0])
            for value in node.values[1:]:
                result = types.binary(op, result, lower_expr(ctx, value), span)
            return result
        case ast.UnaryOp(op=ast.Not()):
            return types.inversion(lower_expr(ctx, node.operand), span)
        case ast.UnaryOp():
            return types.negation(lower_expr(ctx, node.operand, want), span)
        case ast.Constant(value=bool() as flag):
            return Const(value=flag, dtype=DType.BOOL, span=span)
        case _:
            raise Reject(Code.NOT_IN_LANGUAGE, span, f"this use of `{type(node).__name__}` is not in the tile language")


def _lower_pair(ctx: Context, left: ast.expr, right: ast.expr, want: DType | None) -> tuple[Expr, Expr]:
    """Two operands; a literal takes the other's dtype, in fp32 where that is a narrower float."""
    statics = ctx.declarations.statics
    if fold(left, statics) is not None and fold(right, statics) is None:
        b = lower_expr(ctx, right, want)
        return lower_expr(ctx, left, _literal_dtype(b)), b
    a = lower_expr(ctx, left, want)
    return a, lower_expr(ctx, right, _literal_dtype(a))


def _literal_dtype(other: Expr) -> DType:
    return DType.F32 if other.dtype.is_float else other.dtype


def _lower_comparison(ctx: Context, node: ast.Compare) -> Expr:
    span, left = ctx.text.span(node), node.left
    result: Expr | None = None
    for op, right in zip(node.ops, node.comparators, strict=True):
        a, b = _lower_pair(ctx, left, right, None)
        link = types.binary(_COMPARISON[type(op)], a, b, span)
        result = link if result is None else types.binary(BinaryOp.AND, result, link, span)
        left = right
    assert result is not None
    return result


def _lower_select(ctx: Context, node: ast.IfExp, want: DType | None) -> Expr:
    cond, statics = lower_expr(ctx, node.test), ctx.declarations.statics
    if fold(node.body, statics) is not None and fold(node.orelse, statics) is None:
        orelse = lower_expr(ctx, node.orelse, want)
        then = lower_expr(ctx, node.body, orelse.dtype)
        return types.select(cond, then, orelse, ctx.text.span(node))
    then = lower_expr(ctx, node.body, want)
    return types.select(cond, then, lower_expr(ctx, node.orelse, then.dtype), ctx.text.span(node))


def _lower_call(ctx: Context, node: ast.Call, want: DType | None) -> Expr:
    span = ctx.text.span(node)
    if not isinstance(node.func, ast.Name):
        raise Reject(Code.BAD_CALL, span, "no such operator", "there are sum, max, cumsum and suffix_sum")
    name = node.func.id
    if name == "given":
        return _lower_given(ctx, node)
    dtype, function = ctx.declarations.cast_dtype(name), FUNCTIONS.get(name)
    if dtype is None and function is None:
        known = (*FUNCTIONS, *ctx.declarations.statics.dtypes, "bf16", "f32", "given")
        raise Reject(Code.BAD_CALL, span, f"no function `{name}`", did_you_mean(name, known))
    wanted = types.n_arguments(function) if function is not None else 1
    if len(node.args) != wanted:
        raise Reject(Code.BAD_CALL, span, f"`{name}` takes {wanted} argument{'s' if wanted > 1 else ''}")
    if dtype is not None:
        return _lower_cast(ctx, node.args[0], dtype, node)
    assert function is not None
    return types.call(function, _lower_arguments(ctx, node.args, want), span)


def _lower_arguments(ctx: Context, nodes: list[ast.expr], want: DType | None) -> tuple[Expr, ...]:
    """The arguments of a function; literals take the dtype of the first argument that has one."""
    statics = ctx.declarations.statics
    typed = [lower_expr(ctx, node) for node in nodes if fold(node, statics) is None]
    literal = _literal_dtype(typed[0]) if typed else want
    rest = iter(typed)
    return tuple(lower_expr(ctx, n, literal) if fold(n, statics) is not None else next(rest) for n in nodes)


def _lower_cast(ctx: Context, argument: ast.expr, dtype: DType, node: ast.Call) -> Expr:
    literal = fold(argument, ctx.declarations.statics) is not None
    want = DType.F32 if literal and dtype.is_float else None
    return types.cast(lower_expr(ctx, argument, want), dtype, ctx.text.span(node))


def _lower_given(ctx: Context, node: ast.Call) -> Expr:
    span = ctx.text.span(node)
    match node.args:
        case [ast.Name(id=name)] if name in ctx.declarations.tensors and ctx.declarations.tensors[name].optional:
            return Given(tensor=ctx.declarations.tensors[name], span=span)
        case _:
            raise Reject(Code.GIVEN_MISUSE, span, "`given` takes the name of an optional tensor")
