"""Tile IR: what a stage computes. SSA tile values in index notation; no storage, no threads.

A program is a block of statements, each meaning "for all indices of its value". ``@``, reductions, scans and the
triangular inverse are statements of their own; what is element-wise is an expression (`ir.expr`, re-exported here).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from loomgen.errors import Span
from loomgen.ir.expr import (
    Access,
    ArgRead,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Const,
    Coord,
    Expr,
    Function,
    Given,
    GridAxis,
    GridRead,
    IndexRead,
    ScalarArg,
    Select,
    Sub,
    Tensor,
    TensorRead,
    TileRead,
    Unary,
    UnaryOp,
    Window,
    WindowCoord,
    WindowField,
    WindowKind,
    WindowRead,
)
from loomgen.ir.types import Index, Value

__all__ = [
    "Access",
    "ArgRead",
    "Binary",
    "BinaryOp",
    "Call",
    "Carry",
    "Cast",
    "Concat",
    "Const",
    "Contract",
    "Coord",
    "DiagonalInverse",
    "Expr",
    "ForRange",
    "ForWindow",
    "Function",
    "Given",
    "GridAxis",
    "GridRead",
    "If",
    "IndexRead",
    "Inverse",
    "Load",
    "Map",
    "Merge",
    "Program",
    "Reduce",
    "ReduceOp",
    "ScalarArg",
    "Scan",
    "ScanOp",
    "Select",
    "Stmt",
    "Store",
    "Sub",
    "Tensor",
    "TensorRead",
    "TileRead",
    "Unary",
    "UnaryOp",
    "Window",
    "WindowCoord",
    "WindowField",
    "WindowKind",
    "WindowRead",
]

# --------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """``value[axes] = tensor[coords]`` and nothing else: a copy, which a schedule may make asynchronous."""

    value: Value
    source: TensorRead
    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """``value[axes] = expr`` element by element."""

    value: Value
    expr: Expr
    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """``value[m,n] = (seed +) sum_k a[.., k] * b[.., k]``, accumulated in fp32.

    ``a`` carries the value's first index, ``b`` its second, both ``over``. With a ``seed`` (an f32 tile of
    the value's indices) the sum starts from it.
    """

    value: Value
    a: TileRead
    b: TileRead
    over: Index
    seed: TileRead | None
    text: str
    span: Span = field(compare=False)


class ReduceOp(Enum):
    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce:
    """``value[rest] = op over `over` of expr``; the plan records the order of the sum."""

    value: Value
    op: ReduceOp
    over: tuple[Index, ...]
    expr: Expr
    text: str
    span: Span = field(compare=False)


class ScanOp(Enum):
    CUMSUM = "cumsum"
    SUFFIX_SUM = "suffix_sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Inclusive running sum of ``expr`` along ``along``."""

    value: Value
    op: ScanOp
    along: Index
    expr: Expr
    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inverse:
    """``value = (I + source)^-1`` for a strictly lower triangular f32 source (what lies elsewhere is ignored)."""

    value: Value
    source: TileRead
    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagonalInverse:
    """The inverses of the 16x16 diagonal blocks of I + source, stacked: ``value[16r + a, b]`` is element (a, b) of
    block r.

    Only the strictly lower part of each block of ``source[i, j]`` (f32 or tf32) is read. Column c is solved in fp32 by
    x_a = (a == c) - sum over m < a of L_am x_m, one product and one subtraction at a time in ascending m; the result is
    rounded to tf32, the value's dtype.
    """

    value: Value
    source: TileRead
    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat:
    """``value`` put together along its first index from parts of equal extent, each given transposed.

    Element (p * extent + a, j) is element (j, a) of part p.
    """

    value: Value
    parts: tuple[Value, ...]
    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """``tensor[coords] = source`` for all indices in ``coords``; window coordinates outside their window vanish."""

    tensor: Tensor
    coords: tuple[Coord, ...]
    source: TileRead
    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Carry:
    """A loop-carried tile: ``init`` before the loop, ``inner`` at the top of an iteration, ``result`` after it."""

    init: Value
    inner: Value
    update: Value
    result: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class ForWindow:
    """``for c in chunks(n)``: the windows of ``window.kind`` in its parent, in order; possibly none. ``is_reversed``:
    the last one first, ``for c in reversed(chunks(n))``.
    """

    window: Window
    carried: tuple[Carry, ...]
    body: tuple[Stmt, ...]
    text: str
    span: Span = field(compare=False)
    is_reversed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForRange:
    """``for m in range(begin, end)``: an integer loop; ``begin`` and ``end`` are uniform i32."""

    name: str
    begin: Expr
    end: Expr
    carried: tuple[Carry, ...]
    body: tuple[Stmt, ...]
    text: str
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A value assigned in both arms of an ``If``: ``then``'s or ``orelse``'s version."""

    then: Value
    orelse: Value
    result: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class If:
    """A uniform branch. ``return`` inside an arm is expressed by moving what follows into the other arm."""

    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    merges: tuple[Merge, ...]
    text: str
    span: Span = field(compare=False)


Stmt = Load | Map | Contract | Reduce | Scan | Inverse | DiagonalInverse | Concat | Store | ForWindow | ForRange | If


# --------------------------------------------------------------------------- the program


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One kernel's meaning: a stage with all static parameters resolved."""

    stage: str
    dims: tuple[tuple[str, int], ...]  # static axes: ("C", 64), ("K", 128), ...
    runtime_dims: tuple[str, ...]  # "T", "H", "HV", "N", "NC": i32 arguments
    tensors: tuple[Tensor, ...]
    scalars: tuple[ScalarArg, ...]
    grid: tuple[GridAxis, ...]
    indices: tuple[Index, ...]
    body: tuple[Stmt, ...]
    span: Span = field(compare=False)
    numbers: tuple[tuple[str, int], ...] = ()  # all static names: the dims, then a variant's numbers
    where: tuple[tuple[str, Expr], ...] = ()  # the spec's names for integer expressions of the grid
