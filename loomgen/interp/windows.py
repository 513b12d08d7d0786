"""Windows made concrete: which elements of a tensor's axis a grid cell or a loop iteration covers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loomgen.errors import InternalError
from loomgen.interp.tiles import Array
from loomgen.ir.tile import Window, WindowField, WindowKind
from loomgen.registry.tables import CHUNK_LEN, CHUNK_START, CU_SEQLENS, SEQ_CHUNK_START

Tables = Mapping[str, Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Elements ``start`` .. ``start + length - 1`` of an axis; window number ``ordinal`` of its kind.

    Reads may reach ``first_readable`` .. ``end_readable - 1``, the window's parent; ``end_readable`` None is the end
    of the axis. ``origin`` is where the parent starts, None where that is not known. ``ordinal`` is None where the
    table that it comes from was not passed.
    """

    start: int
    length: int
    ordinal: int | None
    first_readable: int
    end_readable: int | None
    origin: int | None

    def may_read(self, position: Array, axis_size: int) -> Array:
        end = axis_size if self.end_readable is None else self.end_readable
        return (position >= self.first_readable) & (position < end)

    def owns(self, position: Array) -> Array:
        return (position >= self.start) & (position < self.start + self.length)

    def field(self, field: WindowField) -> int:
        if field is WindowField.LEN:
            return self.length
        if field is WindowField.LAST:
            return self.length - 1
        if self.origin is None:
            raise InternalError("interp", "the offset of a grid chunk in its sequence is in no table")
        return self.start - self.origin


def grid_extent(window: Window, ordinal: int, tables: Tables) -> Extent:
    """The extent of a grid axis' window at coordinate ``ordinal``."""
    if window.kind is WindowKind.BLOCK:
        start, length = ordinal * window.extent, window.extent
        return Extent(start=start, length=length, ordinal=ordinal, first_readable=0, end_readable=None, origin=0)
    if window.kind is WindowKind.SEQUENCE:
        start, end = (int(tables[CU_SEQLENS][ordinal + i]) for i in (0, 1))
        origin = 0
    else:
        start = int(tables[CHUNK_START][ordinal])
        end = start + int(tables[CHUNK_LEN][ordinal])
        origin = None
    return Extent(
        start=start, length=end - start, ordinal=ordinal, first_readable=start, end_readable=end, origin=origin
    )


def chunk_extents(window: Window, parent: Extent, tables: Tables, *, is_reversed: bool) -> Iterator[Extent]:
    """The chunks of a sequence in order, or the last one first; that one is as short as it must be. None for an empty
    sequence.
    """
    if window.kind is not WindowKind.CHUNK:
        raise InternalError("interp", f"a loop over {window.kind.value} windows is not part of the language")
    end = parent.start + parent.length
    first_ordinal = _first_chunk(parent, tables)
    starts = range(parent.start, end, window.extent)
    for start in reversed(starts) if is_reversed else starts:
        yield Extent(
            start=start,
            length=min(window.extent, end - start),
            ordinal=None if first_ordinal is None else first_ordinal + starts.index(start),
            first_readable=parent.start,
            end_readable=end,
            origin=parent.start,
        )


def _first_chunk(parent: Extent, tables: Tables) -> int | None:
    if parent.ordinal is None or SEQ_CHUNK_START not in tables:
        return None
    return int(tables[SEQ_CHUNK_START][parent.ordinal])
