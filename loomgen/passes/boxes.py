"""Which tiles the copy hardware can bring: what a box of a tensor is, and the panels that it fills."""

from __future__ import annotations

from loomgen.errors import Span, SpecError
from loomgen.ir import tile, walk
from loomgen.ir.plan import SharedRef
from loomgen.ir.schedule import Schedule
from loomgen.ir.tile import Coord, Program, Tensor, WindowCoord, WindowKind
from loomgen.ir.types import Index, Value
from loomgen.passes.contiguous import contiguous_letter
from loomgen.passes.homes import PANEL_BYTES, panel_buffer
from loomgen.passes.partition import boxed_loads
from loomgen.passes.select_rules import reject
from loomgen.spec.codes import Code

MAX_BOX_ROWS = 256
_DEFAULT_SLOTS = 2


def boxed_tiles(program: Program, schedule: Schedule) -> dict[str, SharedRef]:
    """Where the tiles lie that the copy hardware brings, by name; the slots of each as the schedule says."""
    found: dict[str, SharedRef] = {}
    for load in boxed_loads(program, schedule):
        rows, cols = box_axes(load.value, load.source.tensor, load.source.coords, load.span)
        slots = schedule.ring(load.value.name) or _DEFAULT_SLOTS
        buffer = panel_buffer(load.value.name, load.value.dtype, rows, cols, slots)
        found[load.value.name] = SharedRef(buffer=buffer, axes=(rows, cols))
    return found


def box_axes(value: Value, tensor: Tensor, coords: tuple[Coord, ...], span: Span) -> tuple[Index, Index]:
    """The letters along a box's rows and columns. Raises SpecError where the tile is no box of the tensor."""
    cols = contiguous_letter(tensor, coords)
    if len(value.indices) != 2 or not value.dtype.is_half or tensor.strides != "contiguous" or len(coords) < 2:
        raise _no_box(span, f"{value} is no tile of 16-bit elements of a contiguous tensor")
    rows = next((index for index in value.indices if index != cols), None)
    if cols is None or rows is None or _step(coords[0]) != rows:
        raise _no_box(span, f"{value}: its letters do not run along the first and the last dimension of {tensor.name}")
    if any(walk.free_indices(coord) for coord in coords[1:-1]):
        raise _no_box(span, f"{value}: a letter runs along a middle dimension of {tensor.name}")
    panel = PANEL_BYTES // value.dtype.n_bytes
    if rows.extent > MAX_BOX_ROWS or rows.extent % 8 or cols.extent % panel:
        raise _no_box(span, f"{value}: {rows.extent} rows of {cols.extent} columns do not cut into panels of {panel}")
    return rows, cols


def _step(coord: Coord) -> Index | None:
    """The letter whose steps are the coordinate's."""
    inner = coord
    if isinstance(coord, WindowCoord):
        if coord.window.kind is not WindowKind.BLOCK:
            return None
        inner = coord.offset
    if isinstance(inner, tile.Binary) and inner.op is tile.BinaryOp.ADD:
        inner = inner.b if walk.free_indices(inner.b) else inner.a
    return inner.index if isinstance(inner, tile.IndexRead) else None


def _no_box(span: Span, message: str) -> SpecError:
    return reject(span, Code.NO_BOX, message, "take it out of `tma`")
