"""Selection of stores: through shared memory where rows then leave 16 bytes a thread, else straight from registers."""

from __future__ import annotations

from loomgen.ir import plan, tile
from loomgen.ir.plan import RowTile, ScalarHome, SharedRef
from loomgen.ir.schedule import Place
from loomgen.passes.boxes import box_axes
from loomgen.passes.contiguous import contiguous_letter
from loomgen.passes.homes import Homes, panel_buffer, shared_buffer
from loomgen.passes.select_rules import Rules, reject
from loomgen.spec.codes import Code


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
    ref = _staged(stmt, homes)
    homes.ops.append(plan.CopyOut(tensor=stmt.tensor, coords=stmt.coords, homes=found, src=ref, text=stmt.text))


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


def _staged(stmt: tile.Store, homes: Homes) -> SharedRef:
    """The value in shared memory with the tensor's contiguous index along its columns."""
    value = stmt.source.value
    cols = contiguous_letter(stmt.tensor, stmt.coords) or value.indices[1]
    rows = next(index for index in value.indices if index != cols)
    known = homes.shared.get(value.name)
    if known is not None and known.axes == (rows, cols):
        return known
    ref = SharedRef(buffer=shared_buffer(homes.invented(value.name, "out"), value.dtype, rows, cols), axes=(rows, cols))
    if known is not None and not any(homes.division.owns(index) for index in value.indices):
        found = ((value.name, known),)
        homes.ops.append(plan.MapShared(dst=ref, value=value, expr=stmt.source, homes=found, text=stmt.text))
        return ref
    source = homes.fragment(value, homes.row_letter(value), stmt.text)
    transposed = rows != source.fragment.rows
    homes.ops.append(plan.StoreFragment(dst=ref, src=source, transposed=transposed, text=stmt.text))
    return ref
