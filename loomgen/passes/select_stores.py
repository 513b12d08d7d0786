"""Selection of stores: through shared memory where rows then leave 16 bytes a thread, else straight from registers."""

from __future__ import annotations

from loomgen.ir import plan, tile
from loomgen.ir.plan import RowTile, ScalarHome, SharedRef
from loomgen.ir.schedule import Place
from loomgen.passes.homes import Homes, shared_buffer
from loomgen.passes.select_rules import Rules, contiguous_letter


def select_store(stmt: tile.Store, rules: Rules, homes: Homes) -> None:
    value = stmt.source.value
    found = homes.resolve_all(stmt.coords, stmt.text)
    if stmt.tensor.name in rules.fenced:
        reason = f"read {stmt.tensor.name} -> write {stmt.tensor.name}"
        homes.ops.append(plan.Barrier(scope=plan.Scope.BLOCK, reason=reason))
    if len(value.indices) < 2:
        src = _small_source(stmt, homes)
        homes.ops.append(
            plan.StoreScalars(tensor=stmt.tensor, coords=stmt.coords, homes=found, src=src, text=stmt.text)
        )
        return
    if _is_direct(stmt, rules):
        tile_ = homes.tile(value, homes.row_letter(value), stmt.text)
        homes.ops.append(
            plan.StoreDirect(tensor=stmt.tensor, coords=stmt.coords, homes=found, src=tile_, text=stmt.text)
        )
        return
    ref = _staged(stmt, homes)
    homes.ops.append(plan.CopyOut(tensor=stmt.tensor, coords=stmt.coords, homes=found, src=ref, text=stmt.text))


def _small_source(stmt: tile.Store, homes: Homes) -> SharedRef | RowTile | ScalarHome:
    value = stmt.source.value
    if not value.indices:
        return homes.scalars[value.name]
    by_row = homes.rows.get(value.name)
    return by_row if by_row is not None else homes.to_shared(value, stmt.text)


def _is_direct(stmt: tile.Store, rules: Rules) -> bool:
    value = stmt.source.value
    in_strips = rules.division.vector is not None
    return in_strips or not value.dtype.is_half or rules.schedule.placed(stmt.tensor.name) is Place.DIRECT


def _staged(stmt: tile.Store, homes: Homes) -> SharedRef:
    """The value in shared memory with the tensor's contiguous index along its columns."""
    value = stmt.source.value
    cols = contiguous_letter(stmt.coords, stmt.span)
    rows = next(index for index in value.indices if index != cols)
    known = homes.shared.get(value.name)
    if known is not None and known.axes == (rows, cols):
        return known
    source = homes.fragment(value, homes.row_letter(value), stmt.text)
    ref = SharedRef(buffer=shared_buffer(f"{value.name}_out", value.dtype, rows, cols), axes=(rows, cols))
    transposed = rows != source.fragment.rows
    homes.ops.append(plan.StoreFragment(dst=ref, src=source, transposed=transposed, text=stmt.text))
    return ref
