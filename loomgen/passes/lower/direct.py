"""Global memory and registers, without shared memory between: strips, fragments, vectors and scalars."""

from __future__ import annotations

from loomgen.ir import plan, walk
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
    Ternary,
    add,
    call,
    name,
    num,
)
from loomgen.ir.plan import RowTile, SharedRef, StripTile
from loomgen.ir.types import DType, Index
from loomgen.passes.contiguous import contiguous_letter
from loomgen.passes.lower.addresses import Address, address
from loomgen.passes.lower.copies import place
from loomgen.passes.lower.deal import deal_elements
from loomgen.passes.lower.elements import Position
from loomgen.passes.lower.expressions import NARROW
from loomgen.passes.lower.layouts import StripWalk, Walk, element, row_loop, walk_of
from loomgen.passes.lower.maps import MapContext
from loomgen.passes.lower.names import PART, THREAD, c_type

_MAX_WORDS = 4
_VECTORS = {1: "uint32_t", 2: "u32x2", 4: "u32x4"}
_FIELDS = "xyzw"

# --------------------------------------------------------------------------- strips


def lower_load_strip(op: plan.LoadStrip, context: MapContext) -> list[CStmt]:
    """A thread's columns of each of its rows, up to 16 bytes at a time; zeros for a row that does not exist."""
    walk_, array = StripWalk(strip=op.dst.layout), context.naming.local(op.dst.name)
    rows, cols = op.dst.layout.rows, op.dst.layout.cols
    source = f"{array}$source"
    where = place(op.source.tensor, op.source.coords, op.homes, (rows, cols), context, is_store=False)
    base = Declare(type=f"const {c_type(op.source.tensor.dtype)}*", name=source, init=where.base)
    body: list[CStmt] = []
    for at, n_words in _chunks(op.dst):
        vector = _VECTORS[n_words]
        pointer = add(add(name(source), where.varying), num(at * 4 // op.dst.dtype.n_bytes))
        load: CExpr = call("ld_global", call(f"reinterpret_cast<const {vector}*>", pointer))
        if where.guard is not None:
            load = Ternary(cond=where.guard, then=load, orelse=Braces(items=(), type=vector))
        words = f"$words{at}" if at else "$words"
        body.append(Declare(type=f"const {vector}", name=words, init=load))
        for n in range(n_words):
            word = name(f"{words}.{_FIELDS[n]}" if n_words > 1 else words)
            value = word if op.dst.dtype.is_half else call("from_bits", word)
            target = Element(array=array, subscripts=(name(walk_.row_var), num(at + n)))
            body.append(Assign(target=target, value=value))
    return [base, _rows(walk_, rows, cols, tuple(body))]


def _chunks(tile_: StripTile) -> list[tuple[int, int]]:
    """(first word, number of words) of the accesses that cover a thread's columns."""
    n_words = tile_.layout.vector * tile_.dtype.n_bytes // 4
    width = min(n_words, _MAX_WORDS)
    return [(at, width) for at in range(0, n_words, width)]


def _rows(walk_: StripWalk, rows: Index, cols: Index, body: tuple[CStmt, ...]) -> CStmt:
    return row_loop(walk_, rows, (Declare(type="const int", name=cols.name, init=walk_.first_col()), *body))


def _store_strip(op: plan.StoreDirect, tile_: StripTile, where: Address, context: MapContext) -> list[CStmt]:
    walk_, array = StripWalk(strip=tile_.layout), context.naming.local(tile_.name)
    stores: list[CStmt] = []
    for at, n_words in _chunks(tile_):
        vector = _VECTORS[n_words]
        pointer = add(add(name(f"{array}$target"), where.varying), num(at * 4 // tile_.dtype.n_bytes))
        words: list[CExpr] = [
            Element(array=array, subscripts=(name(walk_.row_var), num(at + n))) for n in range(n_words)
        ]
        if not tile_.dtype.is_half:
            words = [call("to_bits", word) for word in words]
        value = Braces(items=tuple(words), type=vector) if n_words > 1 else words[0]
        stores.append(Do(call=call("st_global", call(f"reinterpret_cast<{vector}*>", pointer), value)))
    body: tuple[CStmt, ...] = tuple(stores)
    if where.guard is not None:
        body = (Branch(cond=where.guard, then=body),)
    return [_rows(walk_, tile_.layout.rows, tile_.layout.cols, body)]


# --------------------------------------------------------------------------- stores from registers


def lower_store_direct(op: plan.StoreDirect, context: MapContext) -> list[CStmt]:
    """Each thread stores its own elements: whole strips or pairs where they are contiguous, single elements
    elsewhere.
    """
    array = context.naming.local(op.src.name)
    rows, cols = op.src.layout.rows, op.src.layout.cols
    where = place(op.tensor, op.coords, op.homes, (rows, cols), context, is_store=True)
    base = Declare(type=f"{c_type(op.tensor.dtype)}*", name=f"{array}$target", init=where.base)
    is_wide = _is_contiguous(op, cols) and op.src.dtype.is_float
    if isinstance(op.src, StripTile) and is_wide:
        return [base, *_store_strip(op, op.src, where, context)]
    walk_ = walk_of(op.src.layout, context.team)
    stores = _pair_store(op, walk_, where, array) if is_wide else _single_stores(op, walk_, context)
    inner = row_loop(walk_, rows, stores)
    col = Declare(type="const int", name=cols.name, init=walk_.col())
    loops = For(var=walk_.col_var, begin=num(0), end=num(walk_.n_cols), unroll=True, body=(col, inner))
    if _is_replicated(op.src, context):
        return [base, Branch(cond=Infix(op="==", a=PART, b=num(0)), then=(loops,))]
    return [base, loops]


def _is_replicated(src: plan.RegisterTile | StripTile, context: MapContext) -> bool:
    """Every part holds all columns, so one part speaks for all."""
    return context.team.parts > 1 and isinstance(src.layout, plan.Fragment) and src.layout.col_parts == 1


def _is_contiguous(op: plan.StoreDirect, cols: Index) -> bool:
    return contiguous_letter(op.tensor, op.coords) == cols


def _pair_store(op: plan.StoreDirect, walk_: Walk, where: Address, array: str) -> tuple[CStmt, ...]:
    pointer = add(name(f"{array}$target"), where.varying)
    if op.src.dtype.is_half:
        pair: CExpr = Element(array=array, subscripts=walk_.place(op.src.dtype, 0))
        target = call("reinterpret_cast<uint32_t*>", pointer)
    else:
        pair = Braces(items=tuple(element(walk_, array, op.src.dtype, second) for second in (0, 1)), type="f32x2")
        target = call("reinterpret_cast<f32x2*>", pointer)
    return _guarded(where.guard, Do(call=call("st_global", target, pair)))


def _single_stores(op: plan.StoreDirect, walk_: Walk, context: MapContext) -> tuple[CStmt, ...]:
    array = context.naming.local(op.src.name)
    rows, cols = op.src.layout.rows, op.src.layout.cols
    stores: list[CStmt] = []
    guards: list[CExpr | None] = []
    for second in (0, 1):
        position = Position(letters={rows: name(rows.name), cols: add(name(cols.name), num(second))})
        where = address(op.tensor, op.coords, context.at(op.homes, position), is_store=True)
        value = element(walk_, array, op.src.dtype, second)
        if op.src.dtype.is_half:
            value = call(NARROW[op.src.dtype], value)
        stores.append(Do(call=call("st_global", add(name(f"{array}$target"), where.varying), value)))
        guards.append(where.guard)
    if guards[0] == guards[1]:
        return _guarded(guards[0], *stores)
    return tuple(stmt for guard, store in zip(guards, stores, strict=True) for stmt in _guarded(guard, store))


def _guarded(guard: CExpr | None, *stores: CStmt) -> tuple[CStmt, ...]:
    return stores if guard is None else (Branch(cond=guard, then=stores),)


# --------------------------------------------------------------------------- vectors and scalars


def lower_store_scalars(op: plan.StoreScalars, context: MapContext) -> list[CStmt]:
    """A vector from shared memory, one element a thread; one number a row; or a scalar by the first thread."""
    match op.src:
        case SharedRef():
            letter = op.src.axes[0]
            at = call(f"{context.naming.tile(op.src)}.at", num(0), name(letter.name))
            value: CExpr = call(f"ld_shared<{c_type(op.src.buffer.dtype)}>", at)
            if op.tensor.dtype is DType.BOOL:
                value = Infix(op="!=", a=value, b=num(0))
            return deal_elements(letter, context.team.threads, _small_store(op, value, (letter,), context))
        case RowTile():
            return _store_rows(op, op.src, context)
        case _:
            stores = _small_store(op, name(context.naming.local(op.src.name)), (), context)
            return [Branch(cond=Infix(op="==", a=THREAD, b=num(0)), then=stores)]


def _store_rows(op: plan.StoreScalars, src: RowTile, context: MapContext) -> list[CStmt]:
    walk_ = walk_of(src.layout, context.team)
    slot = name(walk_.row_var)
    letters = walk.free_indices(op.coords[-1]).union(*(walk.free_indices(coord) for coord in op.coords))
    letter = next(iter(letters))
    value = Element(array=context.naming.local(src.name), subscripts=(slot,))
    loop = row_loop(walk_, letter, _small_store(op, value, (letter,), context))
    return [Branch(cond=walk_.is_first_of_row(), then=(loop,))]


def _small_store(
    op: plan.StoreScalars, value: CExpr, letters: tuple[Index, ...], context: MapContext
) -> tuple[CStmt, ...]:
    where = place(op.tensor, op.coords, op.homes, letters, context, is_store=True)
    store = Do(call=call("st_global", where.pointer(), value))
    return (store,) if where.guard is None else (Branch(cond=where.guard, then=(store,)),)
