"""Where each value lives while a plan is built: in registers, in shared memory, or both; conversions on demand."""

from __future__ import annotations

from dataclasses import dataclass, field

from loomgen.errors import InternalError
from loomgen.ir.plan import (
    Home,
    LoadFragment,
    PlanOp,
    RegisterTile,
    RowTile,
    ScalarHome,
    SharedBuffer,
    SharedRef,
    StoreFragment,
    StoreRows,
    StripTile,
)
from loomgen.ir.tile import Coord, Expr, TileRead
from loomgen.ir.types import DType, Index, Value
from loomgen.ir.walk import tile_reads
from loomgen.passes.team import Division

CHUNK_BYTES = 16
_MAX_SWIZZLE_BITS = 3


def shared_buffer(name: str, dtype: DType, rows: Index | None, cols: Index, slots: int = 1) -> SharedBuffer:
    """A buffer laid out so that neither rows of 16-byte chunks nor MMA operands meet bank conflicts.

    Rows of 16-bit elements are XOR-swizzled by 16-byte chunks, up to the 8 chunks of a 128-byte bank row; rows of
    4-byte elements, which fragments touch 8 bytes a thread and 8 rows at once, are padded to 8 mod 16 elements.
    """
    if rows is None:
        return SharedBuffer(name=name, dtype=dtype, rows=1, cols=cols.extent, pitch=cols.extent, swizzle=0, slots=slots)
    row_bytes = cols.extent * dtype.n_bytes
    pitch, swizzle = cols.extent, 0
    if dtype.is_half:
        swizzle = min(_MAX_SWIZZLE_BITS, (row_bytes // CHUNK_BYTES).bit_length() - 1)
    elif cols.extent % 16 == 0:
        pitch = cols.extent + 8
    return SharedBuffer(
        name=name, dtype=dtype, rows=rows.extent, cols=cols.extent, pitch=pitch, swizzle=swizzle, slots=slots
    )


@dataclass(slots=True)
class Homes:
    """The homes known at one point of the program; ``ops`` receives the conversions that a request needs."""

    division: Division
    storage: dict[str, str]
    ops: list[PlanOp]
    registers: dict[tuple[str, str], RegisterTile | StripTile] = field(default_factory=dict)  # (value, row letter)
    rows: dict[str, RowTile] = field(default_factory=dict)
    shared: dict[str, SharedRef] = field(default_factory=dict)
    scalars: dict[str, ScalarHome] = field(default_factory=dict)

    def nested(self) -> Homes:
        """A copy for an inner block: what it learns is forgotten at its end."""
        return Homes(
            division=self.division,
            storage=self.storage,
            ops=[],
            registers=dict(self.registers),
            rows=dict(self.rows),
            shared=dict(self.shared),
            scalars=dict(self.scalars),
        )

    # ------------------------------------------------------------------ defining

    def row_letter(self, value: Value) -> Index:
        """The index that runs along the rows of the value's register layout, or would if it were loaded."""
        known = (index for index in value.indices if (value.name, index.name) in self.registers)
        return next(known, value.indices[0])

    def define_register(self, value: Value, rows: Index | None = None) -> RegisterTile | StripTile:
        """The array of a value that the next operation computes; ``rows`` is its first index unless said otherwise."""
        rows = rows or value.indices[0]
        tile = self.division.register_tile(self.array_name(value), value.dtype, rows, _other(value, rows))
        self.registers[value.name, rows.name] = tile
        return tile

    def array_name(self, value: Value) -> str:
        return self.storage.get(value.name, value.name)

    def define_shared(self, value: Value, rows: Index | None, cols: Index) -> SharedRef:
        buffer = shared_buffer(value.name, value.dtype, rows, cols)
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
        if not value.dtype.is_half or self.division.vector is not None:
            raise InternalError("select", f"{value} cannot be loaded as a fragment")
        fragment = self.division.fragment_of(rows, cols)
        tile = RegisterTile(name=f"{value.name}_{rows.name}{cols.name}", dtype=value.dtype, fragment=fragment)
        self.ops.append(LoadFragment(dst=tile, src=source, transposed=source.axes[0] != rows, text=text))
        self.registers[value.name, rows.name] = tile
        return tile

    def fragment(self, value: Value, rows: Index, text: str) -> RegisterTile:
        """The same, as an MMA's fragment."""
        tile = self.tile(value, rows, text)
        if not isinstance(tile, RegisterTile):
            raise InternalError("select", f"{value} is no fragment")
        return tile

    def to_shared(self, value: Value, text: str) -> SharedRef:
        """The value in shared memory, stored there from its registers if need be."""
        if (known := self.shared.get(value.name)) is not None:
            return known
        name = f"{value.name}_smem"
        if (by_row := self.rows.get(value.name)) is not None:
            letter = value.indices[0]
            ref = SharedRef(buffer=shared_buffer(name, value.dtype, None, letter), axes=(letter,))
            self.ops.append(StoreRows(dst=ref, src=by_row, text=text))
        else:
            source = self.fragment(value, self.row_letter(value), text)
            axes = (source.fragment.rows, source.fragment.cols)
            ref = SharedRef(buffer=shared_buffer(name, value.dtype, *axes), axes=axes)
            self.ops.append(StoreFragment(dst=ref, src=source, transposed=False, text=text))
        self.shared[value.name] = ref
        return ref

    def resolve(self, expr: Expr, rows: Index | None, text: str) -> tuple[tuple[str, Home], ...]:
        """A home for each tile that an element-wise expression reads, in registers with these rows where it is one."""
        found: dict[str, Home] = {}
        for read in tile_reads(expr):
            found[read.value.name] = self._home(read, rows, text)
        return tuple(sorted(found.items()))

    def resolve_all(self, coords: tuple[Coord, ...], text: str) -> tuple[tuple[str, Home], ...]:
        """Homes of the scalars in a tensor's coordinates."""
        found = {read.value.name: self._home(read, None, text) for coord in coords for read in tile_reads(coord)}
        return tuple(sorted(found.items()))

    def _home(self, read: TileRead, rows: Index | None, text: str) -> Home:
        value = read.value
        if not value.indices:
            return self.scalars[value.name]
        if len(value.indices) == 1:
            by_row = self.rows.get(value.name)
            return by_row if by_row is not None and read.subs[0].index == rows else self.to_shared(value, text)
        if rows is None:
            return self.to_shared(value, text)
        at = next((index for index, sub in zip(value.indices, read.subs, strict=True) if sub.index == rows), None)
        if at is None or (value.name in self.shared and not value.dtype.is_half):
            return self.to_shared(value, text)
        return self.tile(value, at, text)


def _other(value: Value, rows: Index) -> Index:
    return next(index for index in value.indices if index != rows)
