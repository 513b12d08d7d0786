"""The operations of the Plan IR that move and compute; each has one implementation in `passes.lower`.

``homes`` of a copy or store are those of the scalars in its coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from loomgen.ir.layout import (
    Fragment,
    Homes,
    RegisterLayout,
    RegisterTile,
    RowTile,
    ScalarHome,
    SharedBuffer,
    SharedRef,
    StripTile,
)
from loomgen.ir.tile import Coord, Expr, ReduceOp, ScanOp, TensorRead
from loomgen.ir.tile import Tensor as TensorArg
from loomgen.ir.types import Index, Value

# --------------------------------------------------------------------------- data movement


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyIn:
    """Global to shared memory by cp.async, ``vector_bytes`` at a time; rows past a window's parent become 0.

    ``ahead``: the tensor is read at the windows of that many iterations later.
    """

    dst: SharedRef
    source: TensorRead
    homes: Homes
    vector_bytes: int
    ahead: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOut:
    """Shared to global memory, 16 bytes at a time; rows outside a window are not written.

    ``of_warps``: the fragment that was stored there; each warp then copies what it stored itself. None: the whole team
    shares the tile.
    """

    tensor: TensorArg
    coords: tuple[Coord, ...]
    homes: Homes
    src: SharedRef
    text: str
    of_warps: Fragment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDirect:
    """Registers to global memory, each thread its own elements; wide where they are neighbours in the tensor."""

    tensor: TensorArg
    coords: tuple[Coord, ...]
    homes: Homes
    src: RegisterTile | StripTile
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreScalars:
    """A vector or a scalar to global memory: one element a thread, one thread a row, or the first thread."""

    tensor: TensorArg
    coords: tuple[Coord, ...]
    homes: Homes
    src: SharedRef | RowTile | ScalarHome
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStrip:
    """Global memory to a strip, a thread's columns of a row at once; rows outside a window's parent become 0."""

    dst: StripTile
    source: TensorRead
    homes: Homes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRows:
    """One number a row to a vector in shared memory, by the first thread of each row."""

    dst: SharedRef
    src: RowTile
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFragment:
    """Shared memory to registers, by ldmatrix where that is a packed fragment; ``transposed``: the buffer's rows are
    the layout's columns.
    """

    dst: RegisterTile | StripTile
    src: SharedRef
    transposed: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFragment:
    """Registers to shared memory: stmatrix for a packed fragment, else each thread its column pairs; ``transposed`` as
    for LoadFragment, of fragments only.
    """

    dst: SharedRef
    src: RegisterTile | StripTile
    transposed: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A register copy, where a loop-carried tile's update was computed elsewhere."""

    dst: RegisterTile | StripTile
    src: RegisterTile | StripTile
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxIn:
    """Global to shared memory by the copy hardware, one box of the tensor a panel of ``dst``; one thread asks for it.
    The bytes arrive at the full barrier of ``dst``'s ring.
    """

    dst: SharedRef
    source: TensorRead
    homes: Homes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxOut:
    """Shared to global memory by the copy hardware, one box of the tensor a panel of ``src``; one thread asks for it,
    and the boxes are one group of its.
    """

    tensor: TensorArg
    coords: tuple[Coord, ...]
    homes: Homes
    src: SharedRef
    text: str


# --------------------------------------------------------------------------- arithmetic


@dataclass(frozen=True, slots=True, kw_only=True)
class MapFragment:
    """Element-wise into a register layout."""

    dst: RegisterTile | StripTile
    value: Value
    expr: Expr
    homes: Homes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MapShared:
    """Element-wise from shared memory to shared memory, 16 bytes of a row (or one element of a vector) a thread."""

    dst: SharedRef
    value: Value
    expr: Expr
    homes: Homes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRows:
    """Element-wise, one number a row of a register layout."""

    dst: RowTile
    value: Value
    expr: Expr
    homes: Homes
    text: str


class ScalarUse(Enum):
    """What a scalar's assignment is to the code that follows."""

    CONSTANT = "constant"
    VARIABLE = "variable"  # declared here, assigned again later: carried or merged
    ASSIGNMENT = "assignment"


@dataclass(frozen=True, slots=True, kw_only=True)
class MapScalar:
    """A value without indices, computed by every thread."""

    dst: ScalarHome
    expr: Expr
    homes: Homes
    use: ScalarUse
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceColumns:
    """A sum or maximum along the columns of a register layout: each thread its own, then its row's threads pairwise.

    ``parts``: contiguous parts of the warp's share of the columns that are reduced apart and combined low to high.
    """

    dst: RowTile
    op: ReduceOp
    layout: RegisterLayout
    expr: Expr
    homes: Homes
    text: str
    parts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceVector:
    """A sum or maximum over one index letter, in ascending order, by every thread."""

    dst: ScalarHome
    op: ReduceOp
    over: Index
    expr: Expr
    homes: Homes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanVector:
    """Running sums of a vector in shared memory: thread t adds its elements up to t (from t on for a suffix)."""

    dst: SharedRef
    src: SharedRef
    op: ScanOp
    text: str


class Atom(Enum):
    """The MMA instruction of a contraction."""

    M16N8K16 = "m16n8k16"
    M16N8K8 = "m16n8k8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mma:
    """``acc (+)= a @ b``: a is a packed fragment, b comes from shared memory as it is consumed.

    ``transposed``: b's rows are the contracted index. ``seeded``: acc holds the seed; ``by_first_part``: every group
    of warps holds it and the first one alone adds it. ``parts``: contiguous parts of the warp's share of the contracted
    index that are accumulated apart and added low to high.
    """

    acc: RegisterTile
    a: RegisterTile
    b: SharedRef
    over: Index
    atom: Atom
    transposed: bool
    seeded: bool
    parts: int
    text: str
    by_first_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpgroupMma:
    """``acc (+)= a @ b`` by the warpgroups, each its 64 rows: both operands are read from shared memory, their summed
    index along the columns, while the warps go on. One group of the asynchronous products.
    """

    acc: RegisterTile
    a: SharedRef
    b: SharedRef
    over: Index
    seeded: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeWrite:
    """Publishes a warp's partial results for the other parts: a product's sums, or one number a row."""

    src: RegisterTile | RowTile
    scratch: SharedBuffer
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRead:
    """Adds the partial sums of all parts, in part order, on every part; of maxima it takes the largest."""

    dst: RegisterTile | RowTile
    scratch: SharedBuffer
    text: str
    op: ReduceOp = ReduceOp.SUM


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagonalBlocks:
    """Inverts the 16x16 unit lower triangular diagonal blocks; slab r does block r."""

    dst: SharedRef
    src: SharedRef
    text: str
