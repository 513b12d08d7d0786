"""The index rules: which letters an expression leaves open, and what may stand in a subscript."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from loomgen.errors import Span
from loomgen.ir.tile import Const, Coord, Expr, GridRead, IndexRead, Tensor, TileRead, Window, WindowCoord, WindowKind
from loomgen.ir.types import Index
from loomgen.spec.codes import Code
from loomgen.spec.declarations import INVERSE, REDUCTIONS, SCANS, Declarations
from loomgen.spec.report import Reject


def subscripts(node: ast.Subscript) -> list[ast.expr]:
    """The parts of ``x[a, b]``."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def operator_name(node: ast.expr) -> str | None:
    """``sum`` for ``sum[j](x)``, ``@`` for a product of tiles; None for what works element by element."""
    match node:
        case ast.BinOp(op=ast.MatMult()):
            return "@"
        case ast.Call(func=ast.Subscript(value=ast.Name(id=name))) if name in REDUCTIONS | SCANS | {INVERSE}:
            return name
        case _:
            return None


def parts_in_order(node: ast.expr) -> Iterator[ast.expr]:
    """The direct sub-expressions, as they are read from left to right; names of functions left out."""
    match node:
        case ast.IfExp():
            yield from (node.body, node.test, node.orelse)
        case ast.Call(func=ast.Subscript() as func):
            yield from subscripts(func)
            yield from node.args
        case ast.Call():
            yield from node.args
        case ast.Attribute():
            return
        case _:
            yield from (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))


def open_letters(node: ast.expr, declarations: Declarations) -> tuple[str, ...]:
    """The index letters of ``node`` that it neither sums nor contracts, in order of appearance."""
    if isinstance(node, ast.Name):
        return (node.id,) if node.id in declarations.indices else ()
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        left, right = (open_letters(part, declarations) for part in (node.left, node.right))
        return tuple(dict.fromkeys(letter for letter in left + right if not (letter in left and letter in right)))
    letters = [letter for part in parts_in_order(node) for letter in open_letters(part, declarations)]
    closed: set[str] = set()
    if operator_name(node) in REDUCTIONS and isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
        closed = {part.id for part in subscripts(node.func) if isinstance(part, ast.Name)}
    return tuple(dict.fromkeys(letter for letter in letters if letter not in closed))


def check_tile_letter(letter: Index, axis: Index, span: Span) -> None:
    """A letter fits an axis of its own symbol. Raises :class:`Reject`."""
    if letter.symbol == axis.symbol:
        return
    message = f"index `{letter.name}` runs over {letter.symbol}, the axis `{axis.name}` over {axis.symbol}"
    raise Reject(Code.WRONG_AXIS, span, message)


def check_run(letter: Index, offset: int, axis: Index, span: Span) -> None:
    """``axis`` has all elements of the run of ``letter`` that begins at ``offset``. Raises :class:`Reject`."""
    if offset < 0 or offset + letter.extent > axis.extent:
        message = f"`{letter.name}` runs over {letter.extent} elements from {offset}, the axis `{axis.name}` has "
        raise Reject(Code.OUT_OF_RANGE, span, f"{message}{axis.extent}")


def check_element(offset: int, axis: Index, span: Span) -> None:
    if not 0 <= offset < axis.extent:
        raise Reject(Code.OUT_OF_RANGE, span, f"element {offset} of axis `{axis.name}`, which has {axis.extent}")


def check_window_letter(window: Window, offset: Expr, span: Span) -> None:
    """A bare letter in a window covers exactly the window; an element of a block is inside. Raises Reject."""
    if isinstance(offset, Const) and window.kind is WindowKind.BLOCK and not 0 <= offset.value < window.extent:
        raise Reject(Code.OUT_OF_RANGE, span, f"element {offset.value} of `{window.name}`, which has {window.extent}")
    if isinstance(offset, IndexRead) and window.extent and offset.index.extent != window.extent:
        letter = offset.index
        message = f"`{letter.name}` runs over {letter.symbol} = {letter.extent}, the window `{window.name}` has "
        raise Reject(Code.WINDOW_MISUSE, span, f"{message}{window.extent} elements")


def check_coordinate(tensor: Tensor, axis: int, coord: Coord, declarations: Declarations) -> None:
    """A coordinate runs over the dimension that it stands in; arithmetic is the writer's care. Raises Reject."""
    symbol = declarations.symbols[tensor.name][axis]
    runs_over = _runs_over(coord, declarations)
    if runs_over is None or runs_over == symbol:
        return
    size = tensor.shape[axis]
    if isinstance(coord, IndexRead) and isinstance(symbol, int) and symbol == coord.index.extent:
        return
    if isinstance(coord, Const) and isinstance(size, int) and 0 <= int(coord.value) < size:
        return
    if isinstance(coord, Const) and isinstance(size, str):
        return
    message = f"dimension {axis} of `{tensor.name}` is {symbol}, the coordinate runs over {runs_over}"
    raise Reject(Code.WRONG_COORDINATE, coord.span, message)


def _runs_over(coord: Coord, declarations: Declarations) -> int | str | None:
    match coord:
        case WindowCoord(window=window):
            return declarations.blocked[window.name] if window.kind is WindowKind.BLOCK else "T"
        case IndexRead(index=index):
            return index.symbol
        case GridRead(name=name) if name in declarations.grid:
            return declarations.grid[name].count
        case Const(value=value):
            return f"element {value}"
        case _:
            return None


def plain_letters(read: TileRead) -> tuple[str, ...] | None:
    """The letters of ``x[e,i]``, or None when a subscript is an element or a run, or a letter stands twice."""
    return None if read.letters is None else tuple(index.name for index in read.letters)
