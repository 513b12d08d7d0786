"""Where the Plan IR keeps tiles: the threads, register fragments, buffers in shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from loomgen.ir.types import DType, Index

WARP_THREADS = 32

# --------------------------------------------------------------------------- threads and layouts


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """The warps that run the program together: warp = part * slabs + slab.

    Slab s owns rows 16s .. 16s+15 of every fragment; part p owns the p-th part of a split index.
    """

    slabs: int
    parts: int

    @property
    def warps(self) -> int:
        return self.slabs * self.parts

    @property
    def threads(self) -> int:
        return self.warps * WARP_THREADS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """The register layout of an MMA accumulator: each warp holds 16 rows and its part of the columns.

    Lane l, column tile n, element (h, c) is row 16*slab + l/4 + 8h, column part*cols/col_parts + 8n + 2(l%4) + c.
    Packed in pairs along the columns, the same layout is the A operand of the next MMA.
    ``col_parts`` is 1 (every part holds all columns) or the team's number of parts.
    """

    rows: Index
    cols: Index
    col_parts: int

    @property
    def local_cols(self) -> int:
        return self.cols.extent // self.col_parts

    @property
    def tiles(self) -> int:
        """Number of 8-column tiles that a warp holds."""
        return self.local_cols // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The register layout of a stage without MMAs: ``vector`` neighbouring columns a thread, ``lanes`` threads a row.

    Thread t, pass p, element c is row t / lanes + groups * p, column vector * (t % lanes) + c, with
    groups = threads / lanes. Where the groups do not divide the rows, the last pass has threads without a row.
    """

    rows: Index
    cols: Index
    vector: int
    groups: int

    @property
    def lanes(self) -> int:
        return self.cols.extent // self.vector

    @property
    def passes(self) -> int:
        """Number of rows that a thread holds."""
        return -(-self.rows.extent // self.groups)


RegisterLayout = Fragment | Strip


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterTile:
    """A fragment in registers. f32: ``float x[tiles][4]``; bf16/f16: ``uint32_t x[tiles/2][4]`` of packed pairs in
    A-operand order; tf32: ``uint32_t x[tiles][4]`` in A-operand order.
    """

    name: str
    dtype: DType
    fragment: Fragment

    @property
    def layout(self) -> RegisterLayout:
        return self.fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class StripTile:
    """A strip in registers: ``float x[passes][vector]``, or ``uint32_t x[passes][vector / 2]`` of packed pairs."""

    name: str
    dtype: DType
    layout: Strip


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTile:
    """One number for each row of a register layout, held by every thread of the row: ``float x[rows a thread]``."""

    name: str
    dtype: DType
    layout: RegisterLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBuffer:
    """A row-major tile in shared memory, ``slots`` times (a ring). A vector has one row.

    ``pitch`` is the distance of rows in elements; ``swizzle`` the number of 16-byte-chunk bits XORed with the row.
    A tile for the copy and product hardware lies in ``panels``: side by side, its columns cut evenly among them, each a
    tile of its own with rows of ``pitch``. ``symbols`` are the letters' extents as the spec has them, for readers.
    """

    name: str
    dtype: DType
    rows: int
    cols: int
    pitch: int
    swizzle: int
    slots: int
    panels: int = 1
    symbols: tuple[str, str] = field(default=("", ""), compare=False)

    @property
    def slot_bytes(self) -> int:
        return self.panels * self.rows * self.pitch * self.dtype.n_bytes

    @property
    def panel_cols(self) -> int:
        return self.cols // self.panels

    @property
    def panel_bytes(self) -> int:
        """Of a row of a panel."""
        return self.pitch * self.dtype.n_bytes

    @property
    def n_bytes(self) -> int:
        return self.slots * self.slot_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRef:
    """A buffer, or a block of it, as one operation sees it.

    ``axes`` are the letters of the rows and columns (of the columns alone for a vector). In a ring the slot is
    (iteration + ahead) % slots of the innermost loop.
    """

    buffer: SharedBuffer
    axes: tuple[Index, ...]
    ahead: int = 0
    row0: int = 0
    col0: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarHome:
    """A value without indices: a register that every thread holds alike."""

    name: str
    dtype: DType


Home = RegisterTile | StripTile | RowTile | SharedRef | ScalarHome
Homes = tuple[tuple[str, Home], ...]
