"""Element expressions of the Tile IR, and what they refer to: kernel arguments, windows, the grid.

Expressions are trees over scalars, tile elements and tensor elements; they are always element-wise. Spans are no part
of a node's identity.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum

from loomgen.errors import Span
from loomgen.ir.types import DType, Index, Value

# --------------------------------------------------------------------------- kernel arguments


class Access(Enum):
    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor argument. ``shape`` holds numbers and run-time dims (``T``, ``H``); ``optional`` may be null.

    ``strides`` "contiguous": row-major, computed from the shape; "rows": every stride but the last (which
    is 1) is a run-time argument; "free": every stride is. Strides count elements. For readers alone: ``symbols`` is the
    shape as the spec has it (none: as in ``shape``), ``about`` what the tensor means.
    """

    name: str
    dtype: DType
    shape: tuple[int | str, ...]
    access: Access
    strides: str
    optional: bool
    span: Span = dataclasses.field(compare=False)
    symbols: tuple[int | str, ...] = dataclasses.field(default=(), compare=False)
    about: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarArg:
    """A scalar kernel argument: a float such as ``scale`` or a flag (bool); run-time dims are not listed here."""

    name: str
    dtype: DType
    span: Span = dataclasses.field(compare=False)


# --------------------------------------------------------------------------- windows and the grid


class WindowKind(Enum):
    SEQUENCE = "sequence"  # tokens cu_seqlens[n] .. cu_seqlens[n+1]
    CHUNK = "chunk"  # at most `extent` tokens of its parent sequence
    BLOCK = "block"  # `extent` consecutive elements of a static dimension


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A run of consecutive elements bound by the grid or a loop; ``c[i]`` is element i of window ``c``.

    SEQUENCE: table ``cu_seqlens`` [N+1] i32. CHUNK of the grid (``parent`` None): tables ``chunk_start`` and
    ``chunk_len`` [NC] i32, ordinal = grid coordinate. CHUNK of a loop over sequence ``parent``: starts at
    parent.start + extent * iteration; ordinal = ``seq_chunk_start``[n] + iteration ([N+1] i32).
    BLOCK: starts at extent * ordinal. ``extent`` is 0 for a SEQUENCE; ``symbol`` is how the spec writes it, for
    readers.
    """

    name: str
    kind: WindowKind
    extent: int
    parent: str | None
    span: Span = dataclasses.field(compare=False)
    symbol: str = dataclasses.field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridAxis:
    """One grid coordinate, outermost first. ``count``: its number of values (a number or a run-time dim).

    ``window`` is set when the coordinate binds a window (its ordinal), None for a plain integer (``hv``). ``symbol``: a
    static count as the spec has it (``V//VB``), for readers.
    """

    name: str
    count: int | str
    window: Window | None
    span: Span = dataclasses.field(compare=False)
    symbol: str = dataclasses.field(default="", compare=False)


# --------------------------------------------------------------------------- element expressions


@dataclass(frozen=True, slots=True, kw_only=True)
class Sub:
    """A static tile subscript: ``index + offset``, the elements of a run from ``offset`` on, or the element ``offset``
    when ``index`` is None (g[C-1])."""

    index: Index | None
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TileRead:
    """Element of a tile value; subscripts are positional (``M[j,i]`` transposes, ``kk[i,i]`` is the diagonal)."""

    value: Value
    subs: tuple[Sub, ...]
    span: Span = dataclasses.field(compare=False)

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def letters(self) -> tuple[Index, ...] | None:
        """Its letters where they differ and each runs over its whole axis, and is divided as the axis is: the tile,
        perhaps renamed or transposed; else None."""
        found = [
            sub.index
            for sub, axis in zip(self.subs, self.value.indices, strict=True)
            if sub.index is not None and sub.offset == 0 and sub.index.symbol == axis.symbol
        ]
        return tuple(found) if len(set(found)) == len(self.subs) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Const:
    value: float | int | bool
    dtype: DType
    span: Span = dataclasses.field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgRead:
    """A scalar argument or a run-time dim (i32)."""

    name: str
    dtype: DType
    span: Span = dataclasses.field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRead:
    """The value of an index letter, an i32."""

    index: Index
    span: Span = dataclasses.field(compare=False)

    @property
    def dtype(self) -> DType:
        return DType.I32


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRead:
    """A grid or loop integer (``hv``, ``m``), or the ordinal of the window of that name (bare ``c``), an i32."""

    name: str
    span: Span = dataclasses.field(compare=False)

    @property
    def dtype(self) -> DType:
        return DType.I32


class WindowField(Enum):
    LEN = "len"  # number of elements
    LAST = "last"  # len - 1
    POS = "pos"  # offset of the window in its parent


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRead:
    window: Window
    field: WindowField
    span: Span = dataclasses.field(compare=False)

    @property
    def dtype(self) -> DType:
        return DType.I32


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """True when an optional tensor was passed; uniform."""

    tensor: Tensor
    span: Span = dataclasses.field(compare=False)

    @property
    def dtype(self) -> DType:
        return DType.BOOL


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCoord:
    """``c[offset]`` inside a tensor subscript: element ``offset`` (an i32 expression) of a window.

    A read outside the window's parent gives 0; a store outside the window itself vanishes.
    """

    window: Window
    offset: Expr
    span: Span = dataclasses.field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRead:
    """An element of a tensor; ``coords`` are window elements or plain i32 expressions, one per dimension."""

    tensor: Tensor
    coords: tuple[WindowCoord | Expr, ...]
    span: Span = dataclasses.field(compare=False)

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype


class UnaryOp(Enum):
    NEG = "-"
    NOT = "not"


class BinaryOp(Enum):
    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"  # floats
    FLOORDIV = "//"  # non-negative integers
    MOD = "%"  # non-negative integers
    AND = "and"
    OR = "or"
    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Function(Enum):
    """Functions of element expressions. The first group is rounded as documented in `docs/numerics.md`."""

    EXP2 = "exp2"
    EXP = "exp"
    LOG = "log"
    RSQRT = "rsqrt"
    SQRT = "sqrt"
    SIGMOID = "sigmoid"
    FMA = "fma"  # a * b + c, rounded once
    MIN = "min"
    MAX = "max"
    ABS = "abs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary:
    op: UnaryOp
    x: Expr
    dtype: DType
    span: Span = dataclasses.field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Both operands have the same dtype (conversions are explicit :class:`Cast` nodes); comparisons give BOOL."""

    op: BinaryOp
    a: Expr
    b: Expr
    dtype: DType
    span: Span = dataclasses.field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    function: Function
    args: tuple[Expr, ...]
    dtype: DType
    span: Span = dataclasses.field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Select:
    """``then if cond else orelse``: the arm not taken is neither read nor allowed to reach the result."""

    cond: Expr
    then: Expr
    orelse: Expr
    dtype: DType
    span: Span = dataclasses.field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """A conversion: widening inserted by the type checker, narrowing (``bf16(x)``) written in the spec."""

    x: Expr
    dtype: DType
    span: Span = dataclasses.field(compare=False)


Expr = (
    TileRead
    | Const
    | ArgRead
    | IndexRead
    | GridRead
    | WindowRead
    | Given
    | TensorRead
    | Unary
    | Binary
    | Call
    | Select
    | Cast
)
Coord = WindowCoord | Expr
