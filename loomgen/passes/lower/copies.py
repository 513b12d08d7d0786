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
    mul,
    name,
    num,
)
from loomgen.ir.plan import SharedRef
from loomgen.ir.tile import WindowCoord, WindowKind
from loomgen.ir.types import Index
from loomgen.passes.lower.addresses import Address, address
from loomgen.passes.lower.deal import PASS, RowDeal, deal_chunks, deal_elements, deal_rows, deal_warp_rows
from loomgen.passes.lower.elements import Position
from loomgen.passes.lower.maps import MapContext
from loomgen.passes.lower.names import c_type
from loomgen.passes.lower.statics import static

# --------------------------------------------------------------------------- global <-> shared


def lower_copy_in(op: plan.CopyIn, context: MapContext) -> list[CStmt]:
    """cp.async of a tile's 16-byte chunks or a vector's words; what is past a window's end is zeros."""
    letters = op.dst.axes
    target = f"{context.naming.local(op.dst.buffer.name)}$source"
    where = place(op.source.tensor, op.source.coords, op.homes, letters, context, is_store=False)
    threads = context.team.threads
    dealt = deal_rows(letters[0], letters[1], op.dst.buffer, threads) if len(letters) == 2 else None
    start, source = _walk(op.source.tensor, op.source.coords, op.homes, dealt, where, target, context)
    base = Declare(type=f"const {c_type(op.source.tensor.dtype)}*", name=target, init=start)
    tile_name = context.naming.tile(op.dst)
    row = name(letters[0].name) if len(letters) == 2 else num(0)
    at = call(f"{tile_name}.at", row, name(letters[-1].name))
    function = f"cp_async_{op.vector_bytes}"

    guard = () if where.guard is None else (where.guard,)
    return [base, *_deal(op.dst, threads, (Do(call=call(function, at, source, *guard)),))]


def lower_copy_out(op: plan.CopyOut, context: MapContext) -> list[CStmt]:
    """16 bytes a thread from shared to global memory, by the whole team or by each warp what it stored."""
    letters = op.src.axes
    target = f"{context.naming.local(op.src.buffer.name)}$target"
    where = place(op.tensor, op.coords, op.homes, letters, context, is_store=True)
    if op.of_warps is not None:
        dealt: RowDeal | None = deal_warp_rows(op.of_warps, op.src.buffer, context.team)
    else:
        dealt = deal_rows(letters[0], letters[1], op.src.buffer, context.team.threads)
    start, element = _walk(op.tensor, op.coords, op.homes, dealt, where, target, context)
    base = Declare(type=f"{c_type(op.tensor.dtype)}*", name=target, init=start)
    load = call("ld_shared<u32x4>", call(f"{context.naming.tile(op.src)}.at", *(name(x.name) for x in letters)))
    store = Do(call=call("st_global", call("reinterpret_cast<u32x4*>", element), load))

    def deal(body: tuple[CStmt, ...]) -> tuple[CStmt, ...]:
        return tuple(_deal(op.src, context.team.threads, body) if dealt is None else dealt.of(body))

    if where.guard is None:
        return [base, *deal((store,))]
    guarded = deal((Branch(cond=where.guard, then=(store,)),))
    full = _is_full(op.coords, context)
    return [base, *guarded] if full is None else [base, Branch(cond=full, then=deal((store,)), orelse=guarded)]


def _walk(
    tensor: tile.Tensor,
    coords: tuple[tile.Coord, ...],
    homes: plan.Homes,
    dealt: RowDeal | None,
    where: Address,
    pointer: str,
    context: MapContext,
) -> tuple[CExpr, CExpr]:
    """What the pointer starts as, and the address of an element by it: the thread's first chunk and equal steps of
    whole rows from there, which need no register a pass; the tile's start and the element's place in it where the rows
    do not lie so.
    """

    def varying(row: CExpr, col: CExpr) -> CExpr:
        assert dealt is not None
        at = context.at(homes, Position(letters={dealt.rows: row, dealt.cols: col}))
        return address(tensor, coords, at, is_store=False).varying

    is_even = dealt is not None and any(_is_letter(coord, dealt.rows) for coord in coords)
    if dealt is None or not is_even or varying(num(0), num(0)) != num(0):
        return where.base, add(name(pointer), where.varying)
    start = add(where.base, varying(dealt.first_row, dealt.col))
    if dealt.n_passes == 1:
        return start, name(pointer)
    return start, add(name(pointer), mul(PASS, varying(num(dealt.rows_per_pass), num(0))))


def _is_letter(coord: tile.Coord, letter: Index) -> bool:
    inner = coord.offset if isinstance(coord, WindowCoord) else coord
    return isinstance(inner, tile.IndexRead) and inner.index == letter


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


def _deal(ref: SharedRef, threads: int, body: tuple[CStmt, ...]) -> list[CStmt]:
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
