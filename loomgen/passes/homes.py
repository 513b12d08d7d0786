"""Where each value lives while a plan is built: in registers, in shared memory, or both; conversions on demand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from loomgen.errors import InternalError
from loomgen.ir.plan import (
    Fragment,
    Home,
    LoadFragment,
    PlanOp,
    RegisterLayout,
    RegisterTile,
    RowTile,
    ScalarHome,
    SharedBuffer,
    SharedRef,
    StoreFragment,
    StoreRows,
    Strip,
    StripTile,
)
from loomgen.ir.tile import Coord, Expr, TileRead
from loomgen.ir.types import DType, Index, Value
from loomgen.ir.walk import tile_reads
from loomgen.passes.team import Division

CHUNK_BYTES = 16
_SWIZZLE_BITS = (3, 2, 1)


def shared_buffer(name: str, dtype: DType, rows: Index | None, cols: Index, slots: int = 1) -> SharedBuffer:
    """A buffer laid out so that neither rows of 16-byte chunks nor MMA operands meet bank conflicts.

    Rows of 16-bit elements are XOR-swizzled by 16-byte chunks, up to the 8 chunks of a 128-byte bank row, as many at
    a time as the row is a whole number of; an odd number of chunks walks through all banks by itself. Rows of 4-byte
    elements, which fragments touch 8 bytes a thread and 8 rows at once, are padded to 8 mod 16 elements. A condition
    takes a whole word.
    """
    dtype = DType.I32 if dtype is DType.BOOL else dtype
    pitch, swizzle = cols.extent, 0
    if rows is not None and dtype.is_half:
        row_bytes = cols.extent * dtype.n_bytes
        swizzle = next((bits for bits in _SWIZZLE_BITS if row_bytes % (CHUNK_BYTES << bits) == 0), 0)
    elif rows is not None and cols.extent % 16 == 0:
        pitch = cols.extent + 8
    return SharedBuffer(
        name=name,
        dtype=dtype,
        rows=1 if rows is None else rows.extent,
        cols=cols.extent,
        pitch=pitch,
        swizzle=swizzle,
        slots=slots,
        symbols=("" if rows is None else rows.symbol, cols.symbol),
    )


PANEL_BYTES = 128
"""The rows of a panel: what the hardware swizzles as a whole."""


def panel_buffer(name: str, dtype: DType, rows: Index, cols: Index, slots: int = 1) -> SharedBuffer:
    """A buffer as the copy and product hardware knows it: panels of 128-byte rows, swizzled by all eight chunks."""
    pitch = PANEL_BYTES // dtype.n_bytes
    return SharedBuffer(
        name=name,
        dtype=dtype,
        rows=rows.extent,
        cols=cols.extent,
        pitch=pitch,
        swizzle=max(_SWIZZLE_BITS),
        slots=slots,
        panels=cols.extent // pitch,
        symbols=(rows.symbol, cols.symbol),
    )


@dataclass(slots=True)
class Homes:
    """The homes known at one point of the program; ``ops`` receives the conversions that a request needs. ``taken`` are
    the names of the program, which nothing invented here has.
    """

    division: Division
    storage: dict[str, str]
    ops: list[PlanOp]
    taken: frozenset[str]
    registers: dict[tuple[str, str], RegisterTile | StripTile] = field(default_factory=dict)  # (value, row letter)
    rows: dict[str, RowTile] = field(default_factory=dict)
    shared: dict[str, SharedRef] = field(default_factory=dict)
    scalars: dict[str, ScalarHome] = field(default_factory=dict)
    arrays: dict[str, RegisterLayout] = field(default_factory=dict)  # of the whole kernel
    buffers: set[str] = field(default_factory=set)  # of the whole kernel

    def nested(self) -> Homes:
        """A copy for an inner block: what it learns is forgotten at its end."""
        return Homes(
            division=self.division,
            storage=self.storage,
            ops=[],
            taken=self.taken,
            registers=dict(self.registers),
            rows=dict(self.rows),
            shared=dict(self.shared),
            scalars=dict(self.scalars),
            arrays=self.arrays,
            buffers=self.buffers,
        )

    # ------------------------------------------------------------------ defining

    def invented(self, base: str, suffix: str) -> str:
        """A name for another form of ``base``: the same for the same form, and no other form's, for no suffix has an
        underscore and a number alone is none.
        """
        wanted = name = f"{base}_{suffix}"
        count = 1
        while name in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        return name

    def row_letter(self, value: Value) -> Index:
        """The index that runs along the rows of the value's register layout, or would if it were loaded."""
        owned = (index for index in value.indices if self.division.owns(index))
        return self.known_row_letter(value) or next(owned, value.indices[0])

    def known_row_letter(self, value: Value) -> Index | None:
        """The same, None where the value is not in registers."""
        return next((index for index in value.indices if (value.name, index.name) in self.registers), None)

    def define_register(self, value: Value, rows: Index | None = None) -> RegisterTile | StripTile:
        """The array of a value that the next operation computes; ``rows`` is its first index unless said otherwise."""
        rows = rows or value.indices[0]
        if (known := self.registers.get((value.name, rows.name))) is not None:
            return known
        tile = self.division.register_tile(self.array_name(value), value.dtype, rows, _other(value, rows))
        if self.arrays.setdefault(tile.name, tile.layout) != tile.layout:
            other = self.invented(value.name, rows.name)
            tile = replace(tile, name=value.name if value.name not in self.arrays else other)
            self.arrays[tile.name] = tile.layout
        self.registers[value.name, rows.name] = tile
        return tile

    def array_name(self, value: Value) -> str:
        name = self.storage.get(value.name, value.name)
        return self.invented(name, "regs") if name in self.buffers else name

    def define_shared(self, value: Value, rows: Index | None, cols: Index) -> SharedRef:
        name = self.invented(value.name, "smem") if value.name in self.arrays else value.name
        self.buffers.add(name)
        buffer = shared_buffer(name, value.dtype, rows, cols)
        ref = SharedRef(buffer=buffer, axes=(cols,) if rows is None else (rows, cols))
        self.shared[value.name] = ref
        return ref

    # ------------------------------------------------------------------ asking

    def tile(self, value: Value, rows: Index, text: str) -> RegisterTile | StripTile:
        """The value in registers with its index ``rows`` along the rows; loaded from shared memory if need be."""
        if (known := self.registers.get((value.name, rows.name))) is not None:
            return known
        source = self.to_shared(value, text)
        cols = _other(value, rows)
        tile = self.division.register_tile(
            self.invented(value.name, f"{rows.name}{cols.name}"), value.dtype, rows, cols
        )
        self.load(tile, source, text)
        self.registers[value.name, rows.name] = tile
        return tile

    def fragment(self, value: Value, rows: Index, text: str) -> RegisterTile:
        """The same, as an MMA's fragment."""
        tile = self.tile(value, rows, text)
        if not isinstance(tile, RegisterTile):
            raise InternalError("select", f"{value} is no fragment")
        return tile

    def load(self, tile: RegisterTile | StripTile, source: SharedRef, text: str) -> None:
        self.ops.append(LoadFragment(dst=tile, src=source, transposed=source.axes[0] != tile.layout.rows, text=text))

    def to_shared(self, value: Value, text: str) -> SharedRef:
        """The value in shared memory, stored there from its registers if need be."""
        if (known := self.shared.get(value.name)) is not None:
            return known
        name = self.invented(value.name, "smem")
        if (by_row := self.rows.get(value.name)) is not None:
            letter = value.indices[0]
            ref = SharedRef(buffer=shared_buffer(name, value.dtype, None, letter), axes=(letter,))
            self.ops.append(StoreRows(dst=ref, src=by_row, text=text))
        else:
            source = self.tile(value, self.row_letter(value), text)
            axes = (source.layout.rows, source.layout.cols)
            ref = SharedRef(buffer=shared_buffer(name, value.dtype, *axes), axes=axes)
            self.ops.append(StoreFragment(dst=ref, src=source, transposed=False, text=text))
        self.shared[value.name] = ref
        return ref

    def resolve(self, expr: Expr, layout: RegisterLayout | None, text: str) -> tuple[tuple[str, Home], ...]:
        """A home for each tile that an element-wise expression reads: registers where every thread holds the elements
        that it needs for its part of ``layout``, else shared memory.
        """
        reads: dict[str, list[TileRead]] = {}
        for read in tile_reads(expr):
            reads.setdefault(read.value.name, []).append(read)
        found = {name: self._home(of_one, layout, text) for name, of_one in reads.items()}
        return tuple(sorted(found.items()))

    def resolve_all(self, coords: tuple[Coord, ...], text: str) -> tuple[tuple[str, Home], ...]:
        """Homes of the scalars in a tensor's coordinates."""
        found = {read.value.name: self._home([read], None, text) for coord in coords for read in tile_reads(coord)}
        return tuple(sorted(found.items()))

    def _home(self, reads: list[TileRead], layout: RegisterLayout | None, text: str) -> Home:
        value = reads[0].value
        if not value.indices:
            return self.scalars[value.name]
        if len(value.indices) == 1:
            by_row = self.rows.get(value.name)
            is_held = by_row is not None and layout is not None and has_rows_of(by_row.layout, layout)
            plain = is_held and all(read.letters == (layout.rows,) for read in reads if layout is not None)
            return by_row if plain and by_row is not None else self.to_shared(value, text)
        at = None if layout is None else _straight(reads, layout)
        if at is None or (value.name in self.shared and not value.dtype.is_half):
            return self.to_shared(value, text)
        known = self.registers.get((value.name, at.name))
        if known is not None:
            return known
        is_fragment = value.dtype.is_half and self.division.vector is None
        return self.tile(value, at, text) if is_fragment else self.to_shared(value, text)


def block_of(ref: SharedRef, read: TileRead) -> SharedRef:
    """What ``read``, by letters, takes of the tile in ``ref``."""
    by_axis = dict(zip(read.value.indices, read.subs, strict=True))
    row, col = (by_axis[axis] for axis in ref.axes)
    if row.index is None or col.index is None:
        raise InternalError("select", f"{read.value} is read by an element, not by a block")
    return replace(ref, axes=(row.index, col.index), row0=row.offset, col0=col.offset)


def has_rows_of(held: RegisterLayout, layout: RegisterLayout) -> bool:
    """A thread's rows in one layout are those that it has in the other."""
    if isinstance(held, Strip) and isinstance(layout, Strip):
        return (held.rows.extent, held.groups) == (layout.rows.extent, layout.groups)
    return isinstance(held, Fragment) and isinstance(layout, Fragment)


def _straight(reads: list[TileRead], layout: RegisterLayout) -> Index | None:
    """The value's index along the layout's rows, if every read takes the very element that the layout is at."""
    found: Index | None = None
    for read in reads:
        letters = read.letters
        if letters is None or set(letters) != {layout.rows, layout.cols}:
            return None
        index = read.value.indices[letters.index(layout.rows)]
        if found is not None and index != found:
            return None
        found = index
    return found


def _other(value: Value, rows: Index) -> Index:
    return next(index for index in value.indices if index != rows)
