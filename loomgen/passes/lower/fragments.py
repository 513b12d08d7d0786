"""Fragments in and out of shared memory, register copies, and one number a row to a vector."""

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
from loomgen.ir.plan import Fragment, RegisterLayout, RegisterTile, SharedRef, StripTile
from loomgen.passes.lower.layouts import FragmentWalk, Walk, element, first_col, row_loop, store_pair, walk_of
from loomgen.passes.lower.maps import MapContext
from loomgen.passes.lower.names import LANE_COL, LANE_ROW, PAIR_COL, PAIR_ROW, PART, c_type, slab_row

# --------------------------------------------------------------------------- fragments


def lower_load_fragment(op: plan.LoadFragment, context: MapContext) -> list[CStmt]:
    """ldmatrix for packed pairs of a fragment, else each thread its elements."""
    if isinstance(op.dst, StripTile) or not op.dst.dtype.is_half:
        return _load_elements(op, context)
    local = context.naming.local(op.dst.name)
    at = _block_address(context.naming.tile(op.src), op.src, op.dst.fragment, context, op.transposed)
    function = "ldmatrix_x4_trans" if op.transposed else "ldmatrix_x4"
    load = Do(call=call(function, Element(array=local, subscripts=(_step(op.dst.fragment),)), at))
    return _steps(op.dst.fragment, (load,))


def lower_store_fragment(op: plan.StoreFragment, context: MapContext) -> list[CStmt]:
    """stmatrix for packed pairs of a fragment, else each thread its pairs; one part writes what all parts hold."""
    if isinstance(op.src, StripTile):
        return _store_strip(op, op.src, context)
    body = _store_packed(op, op.src, context) if op.src.dtype.is_half else _store_words(op, op.src, context)
    if context.team.parts > 1 and op.src.fragment.col_parts == 1:
        return [Branch(cond=Infix(op="==", a=PART, b=num(0)), then=tuple(body))]
    return body


def _load_elements(op: plan.LoadFragment, context: MapContext) -> list[CStmt]:
    walk, layout = walk_of(op.dst.layout, context.team), op.dst.layout
    array, dtype = context.naming.local(op.dst.name), op.dst.dtype
    row, col = name(layout.rows.name), name(layout.cols.name)
    values: list[CExpr] = []
    for second in (0, 1):
        at = (add(col, num(second)), row) if op.transposed else (row, add(col, num(second)))
        load = call(f"ld_shared<{c_type(dtype)}>", _at(context.naming.tile(op.src), op.src, *at))
        values.append(call("to_f32", load) if dtype.is_half else load)
    inner = row_loop(walk, layout.rows, tuple(store_pair(walk, array, dtype, values)))
    return [_pairs(walk, layout, inner)]


def _store_strip(op: plan.StoreFragment, src: StripTile, context: MapContext) -> list[CStmt]:
    walk, layout = walk_of(src.layout, context.team), src.layout
    array = context.naming.local(src.name)
    if src.dtype.is_half:
        pair: CExpr = Element(array=array, subscripts=walk.place(src.dtype, 0))
    else:
        pair = Braces(items=tuple(element(walk, array, src.dtype, second) for second in (0, 1)), type="f32x2")
    at = _at(context.naming.tile(op.dst), op.dst, name(layout.rows.name), name(layout.cols.name))
    return [_pairs(walk, layout, row_loop(walk, layout.rows, (Do(call=call("st_shared", at, pair)),)))]


def _pairs(walk: Walk, layout: RegisterLayout, inner: CStmt) -> CStmt:
    """``inner`` for each column pair, with the columns' letter bound to the first of the two."""
    col = Declare(type="const int", name=layout.cols.name, init=walk.col())
    return For(var=walk.col_var, begin=num(0), end=num(walk.n_cols), unroll=True, body=(col, inner))


def _store_packed(op: plan.StoreFragment, src: RegisterTile, context: MapContext) -> list[CStmt]:
    at = _block_address(context.naming.tile(op.dst), op.dst, src.fragment, context, op.transposed)
    function = "stmatrix_x4_trans" if op.transposed else "stmatrix_x4"
    source = Element(array=context.naming.local(src.name), subscripts=(_step(src.fragment),))
    return _steps(src.fragment, (Do(call=call(function, at, source)),))


def _store_words(op: plan.StoreFragment, src: RegisterTile, context: MapContext) -> list[CStmt]:
    walk = FragmentWalk(fragment=src.fragment, team=context.team)
    array = context.naming.local(src.name)
    row, first = walk.row(name(walk.row_var)), walk.col()
    values = tuple(element(walk, array, src.dtype, second) for second in (0, 1))
    tile_name = context.naming.tile(op.dst)
    if op.transposed:
        stores: tuple[CStmt, ...] = tuple(
            Do(call=call("st_shared", _at(tile_name, op.dst, add(first, num(n)), row), value))
            for n, value in enumerate(values)
        )
    else:
        stores = (Do(call=call("st_shared", _at(tile_name, op.dst, row, first), Braces(items=values, type="f32x2"))),)
    rows = For(var=walk.row_var, begin=num(0), end=num(walk.n_rows), unroll=True, body=stores)
    return [For(var=walk.col_var, begin=num(0), end=num(walk.n_cols), unroll=True, body=(rows,))]


def _at(tile_name: str, ref: SharedRef, row: CExpr, col: CExpr) -> CExpr:
    return call(f"{tile_name}.at", add(num(ref.row0), row), add(num(ref.col0), col))


def _block_address(tile_name: str, ref: SharedRef, fragment: Fragment, context: MapContext, transposed: bool) -> CExpr:
    """The row that a lane addresses of the 16 x 16 block of the column step."""
    first = add(first_col(fragment, context.team), mul(num(16), _step(fragment)))
    if transposed:
        return _at(tile_name, ref, add(first, PAIR_ROW), slab_row(PAIR_COL))
    return _at(tile_name, ref, slab_row(LANE_ROW), add(first, LANE_COL))


def _step(fragment: Fragment) -> CExpr:
    """The column step that the loop is at: the only one where there is no loop."""
    return num(0) if fragment.tiles == 2 else name("$step")


def _steps(fragment: Fragment, body: tuple[CStmt, ...]) -> list[CStmt]:
    if fragment.tiles == 2:
        return list(body)
    return [For(var="$step", begin=num(0), end=num(fragment.tiles // 2), unroll=True, body=body)]


def lower_move(op: plan.Move, context: MapContext) -> list[CStmt]:
    n_outer, n_inner = walk_of(op.dst.layout, context.team).extents(op.dst.dtype)
    target, source = (
        Element(array=context.naming.local(side.name), subscripts=(name("$outer"), name("$inner")))
        for side in (op.dst, op.src)
    )
    body = Assign(target=target, value=source)
    inner = For(var="$inner", begin=num(0), end=num(n_inner), unroll=True, body=(body,))
    return [For(var="$outer", begin=num(0), end=num(n_outer), unroll=True, body=(inner,))]


def lower_store_rows(op: plan.StoreRows, context: MapContext) -> list[CStmt]:
    walk = walk_of(op.src.layout, context.team)
    slot, letter = name(walk.row_var), op.dst.axes[0]
    target = call(f"{context.naming.tile(op.dst)}.at", num(0), name(letter.name))
    value = Element(array=context.naming.local(op.src.name), subscripts=(slot,))
    store = Do(call=call("st_shared", target, value))
    return [Branch(cond=walk.is_first_of_row(), then=(row_loop(walk, letter, (store,)),))]
