"""A short hand for writing Tile IR in tests."""

from __future__ import annotations

from typing import Literal

from loomgen.errors import Span
from loomgen.ir import tile
from loomgen.ir.tile import Access, BinaryOp, Expr, Function, GridAxis, Sub, Tensor, WindowKind
from loomgen.ir.types import DType, Index, Value

SPAN = Span(path="test.yaml", line=1, col=1, end_col=2)
F32, TF32, BF16, F16, I32, BOOL = DType.F32, DType.TF32, DType.BF16, DType.F16, DType.I32, DType.BOOL

Number = int | float | bool


def index(name: str, extent: int) -> Index:
    return Index(name=name, symbol=str(extent), extent=extent)


def value(name: str, *indices: Index, dtype: DType = F32) -> Value:
    return Value(name=name, dtype=dtype, indices=indices)


def read(source: Value, *subs: Index | Sub | int) -> tile.TileRead:
    """``source[subs]``, in its own indices if there are none."""
    return tile.TileRead(value=source, subs=tuple(_sub(sub) for sub in subs or source.indices), span=SPAN)


def _sub(sub: Index | Sub | int) -> Sub:
    match sub:
        case Sub():
            return sub
        case int():
            return Sub(index=None, offset=sub)
        case Index():
            return Sub(index=sub)


def const(number: Number, dtype: DType = F32) -> tile.Const:
    return tile.Const(value=number, dtype=dtype, span=SPAN)


def integer(number: int) -> tile.Const:
    return const(number, I32)


def letter(of: Index) -> tile.IndexRead:
    return tile.IndexRead(index=of, span=SPAN)


def scalar(name: str, dtype: DType = F32) -> tile.ArgRead:
    return tile.ArgRead(name=name, dtype=dtype, span=SPAN)


def coordinate(name: str) -> tile.GridRead:
    return tile.GridRead(name=name, span=SPAN)


def field(of: tile.Window, name: tile.WindowField) -> tile.WindowRead:
    return tile.WindowRead(window=of, field=name, span=SPAN)


_COMPARISONS = {"==", "!=", "<", "<=", ">", ">=", "and", "or"}


def binary(a: Expr, op: str, b: Expr) -> tile.Binary:
    return tile.Binary(op=BinaryOp(op), a=a, b=b, dtype=BOOL if op in _COMPARISONS else a.dtype, span=SPAN)


def product(*factors: Expr) -> Expr:
    """Left to right."""
    first, *rest = factors
    for factor in rest:
        first = binary(first, "*", factor)
    return first


def call(name: str, *args: Expr) -> tile.Call:
    return tile.Call(function=Function(name), args=args, dtype=args[0].dtype, span=SPAN)


def cast(x: Expr, dtype: DType) -> tile.Cast:
    return tile.Cast(x=x, dtype=dtype, span=SPAN)


def select(cond: Expr, then: Expr, orelse: Expr) -> tile.Select:
    return tile.Select(cond=cond, then=then, orelse=orelse, dtype=then.dtype, span=SPAN)


def window(name: str, kind: WindowKind, extent: int = 0, parent: str | None = None) -> tile.Window:
    return tile.Window(name=name, kind=kind, extent=extent, parent=parent, span=SPAN)


def within(of: tile.Window, offset: Expr) -> tile.WindowCoord:
    return tile.WindowCoord(window=of, offset=offset, span=SPAN)


def tensor(
    name: str,
    *shape: int | str,
    dtype: DType = F32,
    access: Literal["in", "out", "inout"] = "in",
    optional: bool = False,
) -> Tensor:
    return Tensor(
        name=name, dtype=dtype, shape=shape, access=Access(access), strides="contiguous", optional=optional, span=SPAN
    )


def element(of: Tensor, *coords: tile.Coord) -> tile.TensorRead:
    return tile.TensorRead(tensor=of, coords=coords, span=SPAN)


def load(into: Value, of: Tensor, *coords: tile.Coord) -> tile.Load:
    return tile.Load(value=into, source=element(of, *coords), text=into.name, span=SPAN)


def map_(into: Value, expr: Expr) -> tile.Map:
    return tile.Map(value=into, expr=expr, text=into.name, span=SPAN)


def contract(
    into: Value, a: tile.TileRead, b: tile.TileRead, over: Index, seed: tile.TileRead | None = None
) -> tile.Contract:
    return tile.Contract(value=into, a=a, b=b, over=over, seed=seed, text=into.name, span=SPAN)


def store(to: Tensor, source: Value, *coords: tile.Coord) -> tile.Store:
    return tile.Store(tensor=to, coords=coords, source=read(source), text=to.name, span=SPAN)


def axis(name: str, count: int | str, bound: tile.Window | None = None) -> GridAxis:
    return GridAxis(name=name, count=count, window=bound, span=SPAN)


def program(
    *body: tile.Stmt,
    tensors: tuple[Tensor, ...],
    grid: tuple[GridAxis, ...] = (),
    scalars: dict[str, DType] | None = None,
) -> tile.Program:
    """Run-time dims are the names in shapes and grid."""
    names = {dim: None for t in tensors for dim in t.shape} | {a.count: None for a in grid}
    return tile.Program(
        stage="test",
        dims=(),
        runtime_dims=tuple(name for name in names if isinstance(name, str)),
        tensors=tensors,
        scalars=tuple(tile.ScalarArg(name=n, dtype=d, span=SPAN) for n, d in (scalars or {}).items()),
        grid=grid,
        indices=(),
        body=body,
        span=SPAN,
    )
