"""Neighbours in memory: which index letter runs along a tensor's last dimension, so that accesses may be wide."""

from __future__ import annotations

from loomgen.ir.tile import Binary, BinaryOp, Const, Coord, Expr, IndexRead, Tensor, WindowCoord, WindowKind
from loomgen.ir.types import Index

_ALIGNED_ELEMENTS = 8
"""16 bytes of 16-bit elements: the widest access of a thread."""


def contiguous_letter(tensor: Tensor, coords: tuple[Coord, ...]) -> Index | None:
    """The letter whose neighbouring values are neighbours in memory, if there is one: it alone addresses the last
    dimension, from an aligned start.
    """
    last = coords[-1]
    is_block = not isinstance(last, WindowCoord) or last.window.kind is WindowKind.BLOCK
    if tensor.strides == "free" or not is_block:
        return None
    terms = _terms(last.offset if isinstance(last, WindowCoord) else last)
    letters = [term.index for term in terms if isinstance(term, IndexRead)]
    is_aligned_start = all(isinstance(term, IndexRead) or _is_multiple(term, _ALIGNED_ELEMENTS) for term in terms)
    return letters[0] if len(letters) == 1 and is_aligned_start else None


def _terms(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Binary) and expr.op is BinaryOp.ADD:
        return (*_terms(expr.a), *_terms(expr.b))
    return (expr,)


def _is_multiple(expr: Expr, of: int) -> bool:
    """Whether an integer is a multiple whatever the values of what it reads."""
    match expr:
        case Const(value=value):
            return value % of == 0
        case Binary(op=BinaryOp.MUL):
            return _is_multiple(expr.a, of) or _is_multiple(expr.b, of)
        case Binary(op=BinaryOp.ADD | BinaryOp.SUB):
            return _is_multiple(expr.a, of) and _is_multiple(expr.b, of)
        case _:
            return False
