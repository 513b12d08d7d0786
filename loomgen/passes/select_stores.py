"""Selection of stores: through shared memory where rows then leave 16 bytes a thread, else straight from registers."""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir import plan, tile
from loomgen.ir.plan import WARP_THREADS, Fragment, RegisterTile, RowTile, ScalarHome, SharedRef
from loomgen.ir.schedule import Place
from loomgen.passes.boxes import box_axes
from loomgen.passes.contiguous import contiguous_letter
from loomgen.passes.homes import CHUNK_BYTES, Homes, panel_buffer, shared_buffer
from loomgen.passes.select_rules import Rules, reject
from loomgen.spec.codes import Code

_LEAST_ROW_BYTES = 64


def select_store(stmt: tile.Store, rules: Rules, homes: Homes) -> None:
    value = stmt.source.value
    found = homes.resolve_all(stmt.coords, stmt.text)
    if len(value.indices) < 2:
        src = _small_source(stmt, homes)
        homes.ops.append(
            plan.StoreScalars(tensor=stmt.tensor, coords=stmt.coords, homes=found, src=src, text=stmt.text)
        )
        return
    if stmt.tensor.name in rules.schedule.boxes:
        homes.ops.append(_box_out(stmt, found, homes))
        return
    if _is_direct(stmt, rules):
        rows = homes.row_letter(value)
        if homes.known_row_letter(value) is None and not rules.division.owns(rows):
            hint = f"order the dimensions of {stmt.tensor.name} so that a letter runs along the last one"
            raise reject(stmt.span, Code.NO_ROW_INDEX, f"{value} has no row index and does not leave in rows", hint)
        tile_ = homes.tile(value, rows, stmt.text)
        homes.ops.append(
            plan.StoreDirect(tensor=stmt.tensor, coords=stmt.coords, homes=found, src=tile_, text=stmt.text)
        )
        return
    ref, stored = _staged(stmt, homes)
    copy = plan.CopyOut(tensor=stmt.tensor, coords=stmt.coords, homes=found, src=ref, text=stmt.text)
    homes.ops.append(replace(copy, of_warps=stored))


def _box_out(stmt: tile.Store, found: plan.Homes, homes: Homes) -> plan.BoxOut:
    """The value goes to panels, which leave as boxes."""
    value = stmt.source.value
    rows, cols = box_axes(value, stmt.tensor, stmt.coords, stmt.span)
    source = homes.fragment(value, homes.row_letter(value), stmt.text)
    ref = SharedRef(buffer=panel_buffer(f"{value.name}_out", value.dtype, rows, cols), axes=(rows, cols))
    transposed = rows != source.fragment.rows
    homes.ops.append(plan.StoreFragment(dst=ref, src=source, transposed=transposed, text=stmt.text))
    return plan.BoxOut(tensor=stmt.tensor, coords=stmt.coords, homes=found, src=ref, text=stmt.text)


def _small_source(stmt: tile.Store, homes: Homes) -> SharedRef | RowTile | ScalarHome:
    value = stmt.source.value
    if not value.indices:
        return homes.scalars[value.name]
    by_row = homes.rows.get(value.name)
    return by_row if by_row is not None else homes.to_shared(value, stmt.text)


def _is_direct(stmt: tile.Store, rules: Rules) -> bool:
    value = stmt.source.value
    in_strips = rules.division.vector is not None
    is_scattered = contiguous_letter(stmt.tensor, stmt.coords) is None
    is_placed = rules.schedule.placed(stmt.tensor.name) is Place.DIRECT
    return in_strips or is_scattered or is_placed or not value.dtype.is_half


def _staged(stmt: tile.Store, homes: Homes) -> tuple[SharedRef, Fragment | None]:
    """The value in shared memory with the tensor's contiguous index along its columns, and the fragment that was stored
    there in rows, if the warps can copy out what each has stored.
    """
    value = stmt.source.value
    cols = contiguous_letter(stmt.tensor, stmt.coords) or value.indices[1]
    rows = next(index for index in value.indices if index != cols)
    known = homes.shared.get(value.name)
    if known is not None and known.axes == (rows, cols):
        return known, None
    ref = SharedRef(buffer=shared_buffer(homes.invented(value.name, "out"), value.dtype, rows, cols), axes=(rows, cols))
    if known is not None and not any(homes.division.owns(index) for index in value.indices):
        found = ((value.name, known),)
        homes.ops.append(plan.MapShared(dst=ref, value=value, expr=stmt.source, homes=found, text=stmt.text))
        return ref, None
    source = homes.fragment(value, homes.row_letter(value), stmt.text)
    transposed = rows != source.fragment.rows
    homes.ops.append(plan.StoreFragment(dst=ref, src=source, transposed=transposed, text=stmt.text))
    return ref, None if transposed or not _leaves_by_warps(source) else source.fragment


def _leaves_by_warps(source: RegisterTile) -> bool:
    """A warp's share of a row is two sectors of memory at least, and its rows divide among its lanes."""
    row_bytes = source.fragment.local_cols * source.dtype.n_bytes
    n_chunks = row_bytes // CHUNK_BYTES
    return row_bytes >= _LEAST_ROW_BYTES and WARP_THREADS % n_chunks == 0
