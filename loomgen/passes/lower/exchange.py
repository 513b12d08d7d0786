"""The exchange of partial results between the groups of warps that share a split index."""

from __future__ import annotations

from loomgen.ir import plan
from loomgen.ir.device import (
    Assign,
    Braces,
    Branch,
    CExpr,
    CStmt,
    Declare,
    Do,
    Element,
    For,
    Infix,
    add,
    call,
    mul,
    name,
    num,
)
from loomgen.ir.plan import RegisterTile, RowTile
from loomgen.passes.lower.layouts import row_loop, walk_of
from loomgen.passes.lower.maps import MapContext, combine
from loomgen.passes.lower.names import LANE, PART, SLAB, WARP

_TILE = name("$tile")
_OTHER_PART = Infix(op="-", a=num(1), b=PART)


def lower_exchange_write(op: plan.ExchangeWrite, context: MapContext) -> list[CStmt]:
    if isinstance(op.src, RowTile):
        return _write_rows(op, op.src, context)
    array, n_tiles = context.naming.local(op.src.name), op.src.fragment.tiles
    values = tuple(Element(array=array, subscripts=(_TILE, num(n))) for n in range(4))
    store = call("st_shared", _scratch(op.scratch, WARP, n_tiles, context), Braces(items=values, type="f32x4"))
    return [For(var="$tile", begin=num(0), end=num(n_tiles), unroll=True, body=(Do(call=store),))]


def lower_exchange_read(op: plan.ExchangeRead, context: MapContext) -> list[CStmt]:
    """Two parts: the sum of two numbers does not depend on their order, so both partners get the same bits."""
    if isinstance(op.dst, RowTile):
        return _read_rows(op, op.dst, context)
    return _read_tiles(op, op.dst, context)


def _read_tiles(op: plan.ExchangeRead, dst: RegisterTile, context: MapContext) -> list[CStmt]:
    array, n_tiles = context.naming.local(dst.name), dst.fragment.tiles
    partner = add(mul(_OTHER_PART, num(context.team.slabs)), SLAB)
    load = call("ld_shared<f32x4>", _scratch(op.scratch, name("$partner"), n_tiles, context))
    adds: list[CStmt] = []
    for n, field in enumerate("xyzw"):
        to = Element(array=array, subscripts=(_TILE, num(n)))
        adds.append(Assign(target=to, value=combine(op.op, to, name(f"$other.{field}"))))
    body = (Declare(type="const f32x4", name="$other", init=load), *adds)
    return [
        Declare(type="const int", name="$partner", init=partner),
        For(var="$tile", begin=num(0), end=num(n_tiles), unroll=True, body=body),
    ]


def _scratch(buffer: plan.SharedBuffer, warp: CExpr, n_tiles: int, context: MapContext) -> CExpr:
    row = add(mul(warp, num(n_tiles)), _TILE)
    return _at(buffer, row, mul(num(4), LANE), context)


def _write_rows(op: plan.ExchangeWrite, src: RowTile, context: MapContext) -> list[CStmt]:
    """The first of a row's four lanes, which hold the same number, writes it."""
    walk, letter = walk_of(src.layout, context.team), src.layout.rows
    value = Element(array=context.naming.local(src.name), subscripts=(name(walk.row_var),))
    store = Do(call=call("st_shared", _at(op.scratch, PART, name(letter.name), context), value))
    is_first = Infix(op="==", a=Infix(op="%", a=LANE, b=num(4)), b=num(0))
    return [Branch(cond=is_first, then=(row_loop(walk, letter, (store,)),))]


def _read_rows(op: plan.ExchangeRead, dst: RowTile, context: MapContext) -> list[CStmt]:
    walk, letter = walk_of(dst.layout, context.team), dst.layout.rows
    total = Element(array=context.naming.local(dst.name), subscripts=(name(walk.row_var),))
    load = call("ld_shared<float>", _at(op.scratch, _OTHER_PART, name(letter.name), context))
    return [row_loop(walk, letter, (Assign(target=total, value=combine(op.op, total, load)),))]


def _at(buffer: plan.SharedBuffer, row: CExpr, col: CExpr, context: MapContext) -> CExpr:
    return call(f"{context.naming.tile(plan.SharedRef(buffer=buffer, axes=()))}.at", row, col)
