"""Contractions on the tensor cores, and the diagonal blocks of the inverse."""

from __future__ import annotations

from loomgen.errors import InternalError
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
    add,
    call,
    mul,
    name,
    num,
)
from loomgen.ir.plan import Atom
from loomgen.ir.types import DType
from loomgen.passes.lower.layouts import first_col
from loomgen.passes.lower.maps import MapContext
from loomgen.passes.lower.names import (
    COL,
    LANE_COL,
    LANE_ROW,
    MATRIX_ROW,
    PAIR_COL,
    PAIR_ROW,
    PART,
    SLAB,
)

_TILE, _STEP = name("$tile"), name("$step")
_ZERO = Literal(text="0.0f")


def lower_mma(op: plan.Mma, context: MapContext) -> list[CStmt]:
    """Steps along the contracted index outside, column tiles of the accumulator inside; parts one after the other."""
    local = context.naming.local(op.acc.name)
    depth = 16 if op.atom is Atom.M16N8K16 else 8
    n_steps = op.a.fragment.local_cols // depth
    per_part = n_steps // op.parts
    out: list[CStmt] = []
    if not op.seeded:
        out += clear(local, op.acc.fragment.tiles)
    if op.by_first_part:
        is_other = Infix(op="!=", a=PART, b=num(0))
        out.append(Branch(cond=is_other, then=tuple(clear(local, op.acc.fragment.tiles))))
    for part in range(op.parts):
        acc = local if part == 0 else f"{local}$part{part}"
        if part:
            out.append(DeclareArray(type="float", name=acc, extents=(op.acc.fragment.tiles, 4), init=Braces(items=())))
        begin, end = num(part * per_part), num((part + 1) * per_part)
        body = tuple(_step(op, acc, context))
        out.append(For(var="$step", begin=begin, end=end, unroll=True, body=body))
    for part in range(1, op.parts):
        out += _accumulate(local, f"{local}$part{part}", op.acc.fragment.tiles)
    return out


def clear(array: str, n_tiles: int) -> list[CStmt]:
    """Zeros in an accumulator."""
    zero = Assign(target=Element(array=array, subscripts=(_TILE, name("$pair"))), value=_ZERO)
    inner = For(var="$pair", begin=num(0), end=num(4), unroll=True, body=(zero,))
    return [For(var="$tile", begin=num(0), end=num(n_tiles), unroll=True, body=(inner,))]


def _accumulate(target: str, source: str, n_tiles: int) -> list[CStmt]:
    to, of = (Element(array=array, subscripts=(_TILE, name("$pair"))) for array in (target, source))
    body = Assign(target=to, value=Infix(op="+", a=to, b=of))
    inner = For(var="$pair", begin=num(0), end=num(4), unroll=True, body=(body,))
    return [For(var="$tile", begin=num(0), end=num(n_tiles), unroll=True, body=(inner,))]


def _step(op: plan.Mma, acc: str, context: MapContext) -> list[CStmt]:
    if op.atom is Atom.M16N8K16:
        return [_half_columns(op, acc, context)]
    return [_tf32_columns(op, acc, context)]


def _half_columns(op: plan.Mma, acc: str, context: MapContext) -> CStmt:
    """Two column tiles at a time: one ldmatrix.x4 brings both their operands."""
    n_tiles = op.acc.fragment.tiles
    if n_tiles % 2:
        raise InternalError("lower", f"{op.acc.name}: an odd number of column tiles")
    cols = add(first_col(op.acc.fragment, context.team), mul(num(16), _TILE))
    over = add(first_col(op.a.fragment, context.team), mul(num(16), _STEP))
    if op.transposed:
        at, function = _at(op, context, add(over, LANE_ROW), add(cols, LANE_COL)), "ldmatrix_x4_trans"
    else:
        at, function = _at(op, context, add(cols, PAIR_ROW), add(over, PAIR_COL)), "ldmatrix_x4"
    mma = "mma_m16n8k16_bf16" if op.a.dtype is DType.BF16 else "mma_m16n8k16_f16"
    a = Element(array=context.naming.local(op.a.name), subscripts=(_STEP,))
    body: list[CStmt] = [
        DeclareArray(type="uint32_t", name="$b", extents=(4,)),
        Do(call=call(function, name("$b"), at)),
    ]
    for odd in (0, 1):
        c = Element(array=acc, subscripts=(add(mul(num(2), _TILE), num(odd)),))
        b0, b1 = (Element(array="$b", subscripts=(num(2 * odd + n),)) for n in (0, 1))
        body.append(Do(call=call(mma, c, a, b0, b1)))
    return For(var="$tile", begin=num(0), end=num(n_tiles // 2), unroll=True, body=tuple(body))


def _tf32_columns(op: plan.Mma, acc: str, context: MapContext) -> CStmt:
    """One column tile at a time; slots t and t+4 of the instruction take the neighbours 2t and 2t+1."""
    cols = add(add(first_col(op.acc.fragment, context.team), mul(num(8), _TILE)), MATRIX_ROW)
    over = add(first_col(op.a.fragment, context.team), add(mul(num(8), _STEP), COL))
    body: list[CStmt] = []
    operands: list[CExpr] = []
    if op.transposed:
        for n in (0, 1):
            load = call("ld_shared<float>", _at(op, context, add(over, num(n)), cols))
            operands.append(call("to_bits", load))
    else:
        load = call("ld_shared<f32x2>", _at(op, context, cols, over))
        body.append(Declare(type="const f32x2", name="$b", init=load))
        operands = [call("to_bits", name("$b.x")), call("to_bits", name("$b.y"))]
    a = Element(array=context.naming.local(op.a.name), subscripts=(_STEP,))
    c = Element(array=acc, subscripts=(_TILE,))
    body.append(Do(call=call("mma_m16n8k8_tf32", c, a, *operands)))
    return For(var="$tile", begin=num(0), end=num(op.acc.fragment.tiles), unroll=True, body=tuple(body))


def _at(op: plan.Mma, context: MapContext, row: CExpr, col: CExpr) -> CExpr:
    return call(f"{context.naming.tile(op.b)}.at", add(num(op.b.row0), row), add(num(op.b.col0), col))


# --------------------------------------------------------------------------- inverse


def lower_diagonal_blocks(op: plan.DiagonalBlocks, context: MapContext) -> list[CStmt]:
    first = mul(num(16), SLAB)
    invert = Do(
        call=call(
            "invert_unit_lower_16",
            name(context.naming.tile(op.src)),
            first,
            first,
            name(context.naming.tile(op.dst)),
            first,
            num(0),
        )
    )
    if context.team.parts > 1:
        return [Branch(cond=Infix(op="==", a=PART, b=num(0)), then=(invert,))]
    return [invert]
