"""How a thread walks its share of a register layout: loops, rows, columns, where an element lies in the array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from typing_extensions import assert_never

from loomgen.ir.device import (
    Assign,
    Branch,
    CExpr,
    CStmt,
    Declare,
    Element,
    For,
    Infix,
    Invoke,
    add,
    call,
    mul,
    name,
    num,
)
from loomgen.ir.plan import Fragment, RegisterLayout, Strip, Team
from loomgen.ir.types import DType, Index
from loomgen.passes.lower.expressions import PACK
from loomgen.passes.lower.names import COL, LANE, PART, ROW, THREAD
from loomgen.passes.lower.statics import extent

WIDEN_LOW = {DType.BF16: "lo_bf16", DType.F16: "lo_f16"}
WIDEN_HIGH = {DType.BF16: "hi_bf16", DType.F16: "hi_f16"}


class Walk(Protocol):
    """A thread's walk over its column pairs (outer loop) and rows (inner loop)."""

    @property
    def col_var(self) -> str: ...
    @property
    def n_cols(self) -> int:
        """Number of column pairs."""
        ...

    @property
    def row_var(self) -> str: ...
    @property
    def n_rows(self) -> int: ...

    def row(self, slot: CExpr) -> CExpr:
        """The row of a row slot."""
        ...

    def row_guard(self) -> CExpr | None:
        """Whether the row, bound to its letter, exists; None if all do."""
        ...

    def col(self) -> CExpr:
        """The first column of the pair ``col_var``."""
        ...

    def extents(self, dtype: DType) -> tuple[int, int]:
        """The array's extents."""
        ...

    def place(self, dtype: DType, second: int) -> tuple[CExpr, CExpr]:
        """Subscripts of an element; of its pair for a packed type."""
        ...

    def lane_masks(self) -> tuple[int, ...]:
        """XOR distances of the lanes that share a row, nearest first."""
        ...

    def is_first_of_row(self) -> CExpr:
        """Whether this thread speaks for its row."""
        ...


def walk_of(layout: RegisterLayout, team: Team) -> Walk:
    match layout:
        case Fragment():
            return FragmentWalk(fragment=layout, team=team)
        case Strip():
            return StripWalk(strip=layout)
        case _:
            assert_never(layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentWalk:
    """8-column tiles, and the two rows l/4 and l/4 + 8 of the slab."""

    fragment: Fragment
    team: Team
    col_var: str = "$tile"
    row_var: str = "$half"
    n_rows: int = 2

    @property
    def n_cols(self) -> int:
        return self.fragment.tiles

    def row(self, slot: CExpr) -> CExpr:
        return add(ROW, mul(num(8), slot))

    def row_guard(self) -> CExpr | None:
        return None

    def col(self) -> CExpr:
        return add(self.first_col(), add(mul(num(8), name(self.col_var)), COL))

    def first_col(self) -> CExpr:
        """The first column that this warp holds."""
        is_split = self.fragment.col_parts > 1 and self.team.parts > 1
        share = Infix(op="/", a=extent(self.fragment.cols), b=num(self.fragment.col_parts))
        return mul(share, PART) if is_split else num(0)

    def extents(self, dtype: DType) -> tuple[int, int]:
        return (self.fragment.tiles // 2 if dtype.is_half else self.fragment.tiles), 4

    def place(self, dtype: DType, second: int) -> tuple[CExpr, CExpr]:
        tile, half = name(self.col_var), name(self.row_var)
        if dtype.is_half:
            odd = Infix(op="%", a=tile, b=num(2))
            return Infix(op="/", a=tile, b=num(2)), add(mul(num(2), odd), half)
        if dtype is DType.TF32:
            return tile, add(half, num(2 * second))
        return tile, add(mul(num(2), half), num(second))

    def lane_masks(self) -> tuple[int, ...]:
        return (1, 2)

    def is_first_of_row(self) -> CExpr:
        first = Infix(op="==", a=Infix(op="%", a=LANE, b=num(4)), b=num(0))
        return first if self.team.parts == 1 else Infix(op="&&", a=first, b=Infix(op="==", a=PART, b=num(0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StripWalk:
    """Pairs of a thread's neighbouring columns, and its rows, one a pass."""

    strip: Strip
    col_var: str = "$pair"
    row_var: str = "$pass"

    @property
    def n_cols(self) -> int:
        return self.strip.vector // 2

    @property
    def n_rows(self) -> int:
        return self.strip.passes

    def row(self, slot: CExpr) -> CExpr:
        group: CExpr = Infix(op="/", a=THREAD, b=num(self.strip.lanes)) if self.strip.lanes > 1 else THREAD
        return add(mul(num(self.strip.groups), slot), group)

    def row_guard(self) -> CExpr | None:
        if self.strip.rows.extent % self.strip.groups == 0:
            return None
        return Infix(op="<", a=name(self.strip.rows.name), b=extent(self.strip.rows))

    def col(self) -> CExpr:
        return add(self.first_col(), mul(num(2), name(self.col_var)))

    def first_col(self) -> CExpr:
        """The first of the thread's columns."""
        lane = Infix(op="%", a=THREAD, b=num(self.strip.lanes)) if self.strip.lanes > 1 else num(0)
        return mul(num(self.strip.vector), lane)

    def extents(self, dtype: DType) -> tuple[int, int]:
        return self.strip.passes, self.strip.vector // 2 if dtype.is_half else self.strip.vector

    def place(self, dtype: DType, second: int) -> tuple[CExpr, CExpr]:
        pair = name(self.col_var)
        return name(self.row_var), pair if dtype.is_half else add(mul(num(2), pair), num(second))

    def lane_masks(self) -> tuple[int, ...]:
        return tuple(1 << bit for bit in range(self.strip.lanes.bit_length() - 1))

    def is_first_of_row(self) -> CExpr:
        return Infix(op="==", a=Infix(op="%", a=THREAD, b=num(self.strip.lanes)), b=num(0))


def row_loop(walk: Walk, letter: Index, body: tuple[CStmt, ...]) -> For:
    """``body`` for each row that the thread holds, with the row's letter bound."""
    guard = walk.row_guard()
    if guard is not None:
        body = (Branch(cond=guard, then=body),)
    row = Declare(type="const int", name=letter.name, init=walk.row(name(walk.row_var)))
    return For(var=walk.row_var, begin=num(0), end=num(walk.n_rows), unroll=True, body=(row, *body))


def first_col(fragment: Fragment, team: Team) -> CExpr:
    """The first column that this warp holds of a fragment."""
    return FragmentWalk(fragment=fragment, team=team).first_col()


def element(walk: Walk, array: str, dtype: DType, second: int) -> CExpr:
    """An element of the pair that the loops are at, as a float."""
    found = Element(array=array, subscripts=walk.place(dtype, second))
    if dtype.is_half:
        return call((WIDEN_HIGH if second else WIDEN_LOW)[dtype], found)
    return call("from_bits", found) if dtype is DType.TF32 else found


def store_pair(walk: Walk, array: str, dtype: DType, values: list[CExpr]) -> list[CStmt]:
    """Assigns the pair that the loops are at; 16-bit values are rounded as they are packed."""
    if dtype.is_half:
        packed = call(PACK[dtype], *values)
        return [Assign(target=Element(array=array, subscripts=walk.place(dtype, 0)), value=packed)]
    return [
        Assign(
            target=Element(array=array, subscripts=walk.place(dtype, second)),
            value=_bits(value) if dtype is DType.TF32 else value,
        )
        for second, value in enumerate(values)
    ]


def _bits(value: CExpr) -> CExpr:
    """A float's bits, without the detour over the float where it was made of bits."""
    if isinstance(value, Invoke) and value.function == "from_bits":
        return value.args[0]
    return call("to_bits", value)
