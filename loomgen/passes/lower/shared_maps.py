"""Element-wise statements from shared memory to shared memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loomgen.ir import plan
from loomgen.ir.device import (
    Assign,
    Braces,
    Branch,
    CExpr,
    CStmt,
    Declare,
    DeclareArray,
    Do,
    Element,
    For,
    Infix,
    Literal,
    Ternary,
    add,
    call,
    mul,
    name,
    num,
)
from loomgen.ir.plan import SharedRef
from loomgen.ir.tile import Expr, ScanOp, TileRead
from loomgen.ir.types import DType
from loomgen.passes.effects import chunk_letters
from loomgen.passes.lower.deal import deal_chunks, deal_elements
from loomgen.passes.lower.elements import ElementNames, Position
from loomgen.passes.lower.expressions import PACK, ExprLowering
from loomgen.passes.lower.hoist import hoist
from loomgen.passes.lower.maps import MapContext
from loomgen.passes.lower.statics import extent

_PAIR = name("$pair")
_PAIRS_PER_CHUNK = 4


def lower_shared(op: plan.MapShared, context: MapContext) -> list[CStmt]:
    return _vector(op, context) if op.dst.buffer.rows == 1 else _chunks(op, context)


def _vector(op: plan.MapShared, context: MapContext) -> list[CStmt]:
    """One element a thread."""
    letter = op.value.indices[0]
    lowering = context.at(op.homes, Position(letters={letter: name(letter.name)}))
    target = call(f"{context.naming.tile(op.dst)}.at", num(0), name(letter.name))
    value = lowering.lower(op.expr)
    if op.value.dtype is DType.BOOL:
        value = Ternary(cond=value, then=num(1), orelse=num(0))
    store = Do(call=call("st_shared", target, value))
    return deal_elements(letter, context.team.threads, (store,))


def lower_scan(op: plan.ScanVector, context: MapContext) -> list[CStmt]:
    """Thread t adds, in order, the elements up to t; for a suffix, from the last one down to t."""
    letter = op.dst.axes[0]
    step, last = name("$step"), Infix(op="-", a=extent(letter), b=num(1))
    is_prefix = op.op is ScanOp.CUMSUM
    at = step if is_prefix else Infix(op="-", a=last, b=step)
    counts = Infix(op="<=" if is_prefix else ">=", a=at, b=name(letter.name))
    load = call("ld_shared<float>", call(f"{context.naming.tile(op.src)}.at", num(0), at))
    total = name("$total")
    add_up = Branch(cond=counts, then=(Assign(target=total, value=Infix(op="+", a=total, b=load)),))
    loop = For(var="$step", begin=num(0), end=extent(letter), unroll=True, body=(add_up,))
    target = call(f"{context.naming.tile(op.dst)}.at", num(0), name(letter.name))
    start = Declare(type="float", name="$total", init=Literal(text="-0.0f"))
    body = (start, loop, Do(call=call("st_shared", target, total)))
    return deal_elements(letter, context.team.threads, body)


def _chunks(op: plan.MapShared, context: MapContext) -> list[CStmt]:
    """Eight 16-bit elements of a row a thread and pass."""
    rows, cols = op.dst.axes
    row, col = name(rows.name), name(cols.name)
    found = hoist(op.expr, context.naming.local(op.value.name), rows, cols, lambda read: False)
    at_row = context.at(op.homes, Position(letters={rows: row}))
    known: dict[Expr, CExpr] = {}
    body: list[CStmt] = []
    for text, expr in (*found.uniform, *found.by_row):
        body.append(Declare(type="const float", name=text, init=replace(at_row, hoisted=dict(known)).as_float(expr)))
        known[expr] = name(text)
    arrays = {
        value: f"{context.naming.local(value)}$pairs"
        for value, home in op.homes
        if isinstance(home, SharedRef) and home.buffer.dtype.is_half and chunk_letters(op, value, home) == op.dst.axes
    }
    for value, home in op.homes:
        if value in arrays and isinstance(home, SharedRef):
            body += _load_chunk(context.naming.tile(home), arrays[value], row, col)
    values = [replace(_in_chunk(op, context, arrays, second), hoisted=known).unrounded(op.expr) for second in (0, 1)]
    packed = Assign(target=Element(array="$out", subscripts=(_PAIR,)), value=call(PACK[op.value.dtype], *values))
    body.append(DeclareArray(type="uint32_t", name="$out", extents=(_PAIRS_PER_CHUNK,)))
    body.append(For(var="$pair", begin=num(0), end=num(_PAIRS_PER_CHUNK), unroll=True, body=(packed,)))
    words = tuple(Element(array="$out", subscripts=(num(n),)) for n in range(_PAIRS_PER_CHUNK))
    target = call(f"{context.naming.tile(op.dst)}.at", row, col)
    body.append(Do(call=call("st_shared", target, Braces(items=words, type="u32x4"))))
    return deal_chunks(rows, cols, op.dst.buffer, context.team.threads, tuple(body))


def _load_chunk(tile: str, array: str, row: CExpr, col: CExpr) -> list[CStmt]:
    words = array.removesuffix("$pairs") + "$chunk"
    load = call("ld_shared<u32x4>", call(f"{tile}.at", row, col))
    parts = Braces(items=tuple(name(f"{words}.{part}") for part in "xyzw"))
    return [
        Declare(type="const u32x4", name=words, init=load),
        DeclareArray(type="const uint32_t", name=array, extents=(_PAIRS_PER_CHUNK,), init=parts),
    ]


def _in_chunk(op: plan.MapShared, context: MapContext, arrays: dict[str, str], second: int) -> ExprLowering:
    rows, cols = op.dst.axes
    col = add(add(name(cols.name), mul(num(2), _PAIR)), num(second))
    elements = _ChunkElements(
        homes=dict(op.homes),
        position=Position(letters={rows: name(rows.name), cols: col}),
        naming=context.naming,
        arrays=arrays,
        second=second,
    )
    return ExprLowering(elements=elements, windows=context.windows, named=dict(context.where))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChunkElements(ElementNames):
    """Elements of the tiles whose chunk this thread has loaded come from its registers."""

    arrays: dict[str, str]
    second: int

    def element(self, read: TileRead) -> CExpr:
        array = self.arrays.get(read.value.name)
        if array is None:
            return ElementNames.element(self, read)
        suffix = "bf16" if read.dtype is DType.BF16 else "f16"
        return call(f"{'hi' if self.second else 'lo'}_{suffix}", Element(array=array, subscripts=(_PAIR,)))
