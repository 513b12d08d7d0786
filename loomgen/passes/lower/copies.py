"""Copies of tiles and vectors between global and shared memory."""

from __future__ import annotations

from loomgen.ir import plan, tile
from loomgen.ir.device import (
    Branch,
    CExpr,
    CStmt,
    Declare,
    Do,
    Infix,
    add,
    call,
    name,
    num,
)
from loomgen.ir.plan import SharedRef
from loomgen.ir.tile import WindowCoord, WindowKind
from loomgen.ir.types import Index
from loomgen.passes.lower.addresses import Address, address
from loomgen.passes.lower.deal import deal_chunks, deal_elements
from loomgen.passes.lower.elements import Position
from loomgen.passes.lower.maps import MapContext
from loomgen.passes.lower.names import c_type
from loomgen.passes.lower.statics import static

# --------------------------------------------------------------------------- global <-> shared


def lower_copy_in(op: plan.CopyIn, context: MapContext) -> list[CStmt]:
    """cp.async of a tile's 16-byte chunks or a vector's words; only a partial window pays for predicates."""
    letters = op.dst.axes
    target = f"{context.naming.local(op.dst.buffer.name)}$source"
    where = place(op.source.tensor, op.source.coords, op.homes, letters, context, is_store=False)
    base = Declare(type=f"const {c_type(op.source.tensor.dtype)}*", name=target, init=where.base)
    tile_name = context.naming.tile(op.dst)
    row = name(letters[0].name) if len(letters) == 2 else num(0)
    at = call(f"{tile_name}.at", row, name(letters[-1].name))
    source = add(name(target), where.varying)
    function = f"cp_async_{op.vector_bytes}"

    def deal(*args: CExpr) -> tuple[CStmt, ...]:
        return tuple(_deal(op.dst, op.vector_bytes, context.team.threads, (Do(call=call(function, *args)),)))

    if where.guard is None:
        return [base, *deal(at, source)]
    full = _is_full(op.source.coords, context)
    if full is None:
        return [base, *deal(at, source, where.guard)]
    return [base, Branch(cond=full, then=deal(at, source), orelse=deal(at, source, where.guard))]


def lower_copy_out(op: plan.CopyOut, context: MapContext) -> list[CStmt]:
    """16 bytes a thread from shared to global memory."""
    letters = op.src.axes
    target = f"{context.naming.local(op.src.buffer.name)}$target"
    where = place(op.tensor, op.coords, op.homes, letters, context, is_store=True)
    base = Declare(type=f"{c_type(op.tensor.dtype)}*", name=target, init=where.base)
    pointer = call("reinterpret_cast<u32x4*>", add(name(target), where.varying))
    load = call("ld_shared<u32x4>", call(f"{context.naming.tile(op.src)}.at", *(name(x.name) for x in letters)))
    store = Do(call=call("st_global", pointer, load))

    def deal(body: tuple[CStmt, ...]) -> tuple[CStmt, ...]:
        return tuple(deal_chunks(letters[0], letters[1], op.src.buffer, context.team.threads, body))

    if where.guard is None:
        return [base, *deal((store,))]
    guarded = deal((Branch(cond=where.guard, then=(store,)),))
    full = _is_full(op.coords, context)
    return [base, *guarded] if full is None else [base, Branch(cond=full, then=deal((store,)), orelse=guarded)]


def place(
    tensor: tile.Tensor,
    coords: tuple[tile.Coord, ...],
    homes: plan.Homes,
    letters: tuple[Index, ...],
    context: MapContext,
    *,
    is_store: bool,
) -> Address:
    """The address of a tile's element as a function of its letters."""
    position = Position(letters={letter: name(letter.name) for letter in letters})
    return address(tensor, coords, context.at(homes, position), is_store=is_store)


def _deal(ref: SharedRef, vector_bytes: int, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
    if len(ref.axes) == 1:
        return deal_elements(ref.axes[0], threads, body)
    return deal_chunks(ref.axes[0], ref.axes[1], ref.buffer, threads, body)


def _is_full(coords: tuple[tile.Coord, ...], context: MapContext) -> CExpr | None:
    """The window that the tile's rows run over has all its elements, so that no row needs a predicate."""
    for coord in coords:
        if isinstance(coord, WindowCoord) and coord.window.kind is WindowKind.CHUNK:
            if not isinstance(coord.offset, tile.IndexRead) or coord.offset.index.extent != coord.window.extent:
                return None
            whole = static(coord.window.symbol, coord.window.extent)
            return Infix(op="==", a=context.windows[coord.window].length, b=whole)
    return None
