"""Addresses of tensor elements: a base pointer that does not depend on the element, row and column terms that do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loomgen.errors import Diagnostic, SpecError
from loomgen.ir import tile, walk
from loomgen.ir.device import CExpr, Infix, Name, add, call, mul, name, num
from loomgen.ir.tile import Coord, Tensor, WindowCoord, WindowKind
from loomgen.passes.lower.statics import static
from loomgen.spec.codes import Code

if TYPE_CHECKING:
    from loomgen.passes.lower.expressions import ExprLowering


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """``base + varying``: ``base`` an element pointer, ``varying`` the sum of what depends on index letters."""

    base: CExpr
    varying: CExpr
    guard: CExpr | None

    def pointer(self) -> CExpr:
        return add(self.base, self.varying)


def address(tensor: Tensor, coords: tuple[Coord, ...], lowering: ExprLowering, *, is_store: bool) -> Address:
    """The address of the element at ``coords``; ``guard`` says when it may be touched, None if always."""
    fixed: list[CExpr] = []
    varying: CExpr = num(0)
    guards: list[CExpr] = []
    for dim, coord in enumerate(coords):
        start, moving = _parts(coord, lowering)
        fixed.append(start)
        varying = add(varying, mul(moving, stride(tensor, dim)))
        guards.extend(_guards(coord, lowering, is_store))
    base = add(name(tensor.name), _offset(tensor, fixed))
    guard = guards[0] if guards else None
    for more in guards[1:]:
        guard = Infix(op="&&", a=guard, b=more) if guard is not None else more
    return Address(base=base, varying=varying, guard=guard)


def box_corner(tensor: Tensor, coords: tuple[Coord, ...], lowering: ExprLowering) -> tuple[CExpr, CExpr]:
    """Row and column of a box's first element: every letter at 0, the dimensions after the first one row."""
    starts = [_start(coord, lowering) for coord in coords]
    col: CExpr = num(0)
    for dim, start in enumerate(starts[1:], 1):
        col = add(col, mul(start, stride(tensor, dim)))
    return starts[0], col


def _start(coord: Coord, lowering: ExprLowering) -> CExpr:
    """The coordinate where every index letter is 0."""
    inner = walk.rewrite(coord.offset if isinstance(coord, WindowCoord) else coord, _first)
    offset = lowering.integer(inner)
    return add(lowering.windows[coord.window].start, offset) if isinstance(coord, WindowCoord) else offset


def _first(node: tile.Expr) -> tile.Expr:
    is_letter = isinstance(node, tile.IndexRead)
    return tile.Const(value=0, dtype=node.dtype, span=node.span) if is_letter else node


def stride(tensor: Tensor, dim: int) -> CExpr:
    """Elements from one index of a dimension to the next."""
    rank = len(tensor.shape)
    if tensor.strides == "free" or (tensor.strides == "rows" and dim < rank - 1):
        return name(stride_argument(tensor, dim))
    product: CExpr = num(1)
    for inner in range(dim + 1, rank):
        product = mul(product, _extent(tensor, inner))
    return product


def stride_argument(tensor: Tensor, dim: int) -> str:
    return f"{tensor.name}_stride{dim}"


def _extent(tensor: Tensor, dim: int) -> CExpr:
    size = tensor.shape[dim]
    return static(tensor.symbols[dim] if tensor.symbols else "", size) if isinstance(size, int) else name(size)


def _offset(tensor: Tensor, fixed: list[CExpr]) -> CExpr:
    """The element offset of the fixed coordinates, in 64 bits."""
    if tensor.strides != "contiguous":
        terms = [mul(coord, stride(tensor, dim)) for dim, coord in enumerate(fixed)]
        total: CExpr = num(0)
        for term in terms:
            total = add(total, term)
        return total
    total = num(0)
    for dim, coord in enumerate(fixed):
        if total != num(0):
            wide = call("int64_t", total) if isinstance(total, Name) else total
            total = mul(wide, _extent(tensor, dim))
        total = add(total, coord)
    return _widened(total)


def _widened(total: CExpr) -> CExpr:
    """The innermost product of a nested offset in 64 bits: everything around it then is, too."""
    if isinstance(total, Infix):
        if isinstance(total.a, Infix):
            return Infix(op=total.op, a=_widened(total.a), b=total.b)
        if total.op in ("*", "+") and isinstance(total.a, Name):
            return Infix(op=total.op, a=call("int64_t", total.a), b=total.b)
    return total


def _parts(coord: Coord, lowering: ExprLowering) -> tuple[CExpr, CExpr]:
    """(what is the same for all elements, what depends on index letters)."""
    if isinstance(coord, WindowCoord):
        start = lowering.windows[coord.window].start
        offset = lowering.integer(coord.offset)
        return (start, offset) if walk.free_indices(coord.offset) else (add(start, offset), num(0))
    lowered = lowering.integer(coord)
    return (num(0), lowered) if walk.free_indices(coord) else (lowered, num(0))


def _guards(coord: Coord, lowering: ExprLowering, is_store: bool) -> list[CExpr]:
    """Conditions under which a window coordinate exists: in the parent for a read, in the window for a store."""
    if not isinstance(coord, WindowCoord) or coord.window.kind is WindowKind.BLOCK:
        return []
    if is_clamped(coord):
        return []
    names = lowering.windows[coord.window]
    offset = lowering.integer(coord.offset)
    if isinstance(coord.offset, tile.IndexRead) or is_store:
        return [Infix(op="<", a=offset, b=names.length)]
    if coord.window.kind is WindowKind.SEQUENCE:
        return [Infix(op=">=", a=offset, b=num(0)), Infix(op="<", a=offset, b=names.length)]
    if names.parent_len is None:
        message = "a chunk of the grid is read at its own elements or at min(i, c.last) only"
        hint = "loop over the chunks of a sequence to read its other elements"
        raise SpecError([Diagnostic(code=Code.OUTSIDE_CHUNK.value, message=message, span=coord.span, hint=hint)])
    inside = add(names.pos, offset)
    return [Infix(op=">=", a=inside, b=num(0)), Infix(op="<", a=inside, b=names.parent_len)]


def is_clamped(coord: WindowCoord) -> bool:
    """``c[min(i, c.last)]``: always inside a window that is not empty."""
    match coord.offset:
        case tile.Call(function=tile.Function.MIN, args=(tile.IndexRead(), tile.WindowRead() as bound)):
            return bound.window == coord.window and bound.field is tile.WindowField.LAST
        case _:
            return False
