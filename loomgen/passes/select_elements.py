"""Selection of loads, element-wise statements, reductions and scans."""

from __future__ import annotations

from dataclasses import replace

from loomgen.errors import Span
from loomgen.ir import plan, tile, walk
from loomgen.ir.plan import RowTile, ScalarHome, ScalarUse, SharedRef, StripTile
from loomgen.ir.schedule import Place
from loomgen.ir.types import Index, Value
from loomgen.passes.contiguous import contiguous_letter
from loomgen.passes.homes import Homes, block_of, has_rows_of, shared_buffer
from loomgen.passes.select_exchange import exchange
from loomgen.passes.select_rules import Rules, is_aligned, reject
from loomgen.spec.codes import Code

_COPY_BYTES = 16
_WORD_BYTES = 4


def select_load(stmt: tile.Load, rules: Rules, homes: Homes) -> None:
    """4-byte vectors are copied to shared memory, and so are 16-bit tiles where there are products; a strip is loaded a
    thread's columns at once; the rest is read where it is used. A tensor that is updated in place is never copied: an
    asynchronous copy, which may run an iteration ahead, has no place among its stores."""
    value = stmt.value
    if (box := rules.boxes.get(value.name)) is not None:
        found = homes.resolve_all(stmt.source.coords, stmt.text)
        homes.ops.append(plan.BoxIn(dst=box, source=stmt.source, homes=found, text=stmt.text))
        homes.shared[value.name] = box
        return
    if len(value.indices) == 2 and rules.division.vector is not None and _is_row_major(stmt):
        dst = homes.define_register(value)
        assert isinstance(dst, StripTile)
        found = homes.resolve_all(stmt.source.coords, stmt.text)
        homes.ops.append(plan.LoadStrip(dst=dst, source=stmt.source, homes=found, text=stmt.text))
        return
    is_tile = (
        len(value.indices) == 2
        and value.dtype.is_half
        and rules.division.vector is None
        and contiguous_letter(stmt.source.tensor, stmt.source.coords) is not None
    )
    is_words = len(value.indices) == 1 and value.dtype.n_bytes == _WORD_BYTES
    if (not is_tile and not is_words) or stmt.source.tensor.access is tile.Access.INOUT:
        select_map(value, stmt.source, stmt, rules, homes)
        return
    along = contiguous_letter(stmt.source.tensor, stmt.source.coords)
    cols = value.indices[0] if is_words or along is None else along
    rows = None if is_words else next(index for index in value.indices if index != cols)
    dst_ref = homes.define_shared(value, rows, cols)
    vector_bytes = _WORD_BYTES if is_words else _COPY_BYTES
    found = homes.resolve_all(stmt.source.coords, stmt.text)
    copy = plan.CopyIn(dst=dst_ref, source=stmt.source, homes=found, vector_bytes=vector_bytes, ahead=0, text=stmt.text)
    homes.ops.append(copy)


def _is_row_major(stmt: tile.Load) -> bool:
    """The tensor's last dimension runs along the value's second index, plainly: neighbours in a strip are neighbours
    in memory."""
    along = contiguous_letter(stmt.source.tensor, stmt.source.coords)
    return stmt.value.dtype.is_float and along == stmt.value.indices[1]


def select_map(value: Value, expr: tile.Expr, stmt: tile.Map | tile.Load, rules: Rules, homes: Homes) -> None:
    if not value.indices:
        scalar = ScalarHome(name=value.name, dtype=value.dtype)
        found = homes.resolve(expr, None, stmt.text)
        homes.ops.append(plan.MapScalar(dst=scalar, expr=expr, homes=found, use=ScalarUse.CONSTANT, text=stmt.text))
        homes.scalars[value.name] = scalar
        return
    if len(value.indices) == 1 and (layout := _row_layout(value, expr, homes)) is not None:
        found = homes.resolve(expr, layout, stmt.text)
        dst_rows = RowTile(name=value.name, dtype=value.dtype, layout=layout)
        homes.ops.append(plan.MapRows(dst=dst_rows, value=value, expr=expr, homes=found, text=stmt.text))
        homes.rows[value.name] = dst_rows
        return
    if (block := _block(value, expr, rules, homes)) is not None:
        rows = _row_letter(value, expr, stmt.span, rules, homes)
        homes.load(homes.define_register(value, rows), block, stmt.text)
        return
    if _is_computed_in_shared(value, expr, stmt.span, rules, homes):
        found = homes.resolve(expr, None, stmt.text)
        first = value.indices[0] if len(value.indices) == 2 else None
        dst = homes.define_shared(value, first, value.indices[-1])
        homes.ops.append(plan.MapShared(dst=dst, value=value, expr=expr, homes=found, text=stmt.text))
        return
    rows = _row_letter(value, expr, stmt.span, rules, homes)
    cols = next(index for index in value.indices if index != rows)
    found = homes.resolve(expr, rules.division.register_tile(value.name, value.dtype, rows, cols).layout, stmt.text)
    dst_tile = homes.define_register(value, rows)
    homes.ops.append(plan.MapFragment(dst=dst_tile, value=value, expr=expr, homes=found, text=stmt.text))
    if (value.name, rows.name) in rules.contracted:
        homes.to_shared(value, stmt.text)  # now, so that its registers are free until then


def _block(value: Value, expr: tile.Expr, rules: Rules, homes: Homes) -> SharedRef | None:
    """The block of a 16-bit tile in shared memory that ``value`` is, where `ldmatrix` can bring it: its rows begin at a
    multiple of 16 bytes."""
    if not isinstance(expr, tile.TileRead) or expr.letters is not None or not value.dtype.is_half:
        return None
    ref, is_fragment = homes.shared.get(expr.value.name), rules.division.vector is None
    is_placed = rules.schedule.placed(value.name) is Place.SHARED
    has_rows = any(rules.division.owns(index) for index in value.indices)
    is_block = len(value.indices) == 2 and {sub.index for sub in expr.subs} == set(value.indices)
    if ref is None or not (is_block and is_fragment and has_rows):
        return None
    block = block_of(ref, expr)
    return None if is_placed or block.col0 * value.dtype.n_bytes % _COPY_BYTES else block


def _row_layout(value: Value, expr: tile.Expr, homes: Homes) -> plan.RegisterLayout | None:
    """The layout of the one-number-a-row values that a floating vector is computed from, if any; the first one's where
    all are held alike."""
    letter = value.indices[0]
    reads = [homes.rows.get(read.value.name) for read in walk.tile_reads(expr) if read.letters == (letter,)]
    layouts = [by_row.layout for by_row in reads if by_row is not None]
    is_held = bool(layouts) and all(has_rows_of(layout, layouts[0]) for layout in layouts)
    return replace(layouts[0], rows=letter) if is_held and value.dtype.is_float else None


def _row_letter(value: Value, expr: tile.Expr, span: Span, rules: Rules, homes: Homes) -> Index:
    """The letter along the rows of what is read from registers; else the first row letter of the value."""
    for read in walk.tile_reads(expr):
        letters = read.letters
        if letters is not None and set(letters) == set(value.indices) and read.value.name not in homes.shared:
            return letters[read.value.indices.index(homes.row_letter(read.value))]
    owned = [index for index in value.indices if rules.division.owns(index)]
    if not owned:
        rows = ", ".join(sorted(rules.division.rows))
        raise reject(span, Code.NO_ROW_INDEX, f"{value} has no row index: its rows must be one of {rows}")
    return owned[0]


def _is_computed_in_shared(value: Value, expr: tile.Expr, span: Span, rules: Rules, homes: Homes) -> bool:
    if len(value.indices) == 1:
        return True
    place = rules.schedule.placed(value.name)
    if place is Place.SHARED and (rules.division.vector is not None or not value.dtype.is_half):
        at = rules.schedule.span(f"place.{value.name}") or span
        raise reject(
            at, Code.BAD_PLACE, f"{value}: only 16-bit tiles of a stage with products are computed in shared memory"
        )
    if place is not None:
        return place is Place.SHARED
    tiles = [read for read in walk.tile_reads(expr) if len(read.value.indices) == 2]
    aligned = all(is_aligned(read, value, homes) for read in tiles)
    if not value.dtype.is_half or rules.division.vector is not None:
        return False
    has_rows = any(rules.division.owns(index) for index in value.indices)
    return not has_rows or (value.name in rules.shared_names and bool(tiles) and aligned)


def select_reduce(stmt: tile.Reduce, rules: Rules, homes: Homes) -> None:
    """Along the columns of a register layout, or of a vector by every thread."""
    if len(stmt.over) != 1:
        raise reject(
            stmt.span, Code.REDUCTION_SHAPE, "a reduction runs over one index at a time", "reduce one, then the other"
        )
    over = stmt.over[0]
    if not stmt.value.indices:
        found = homes.resolve(stmt.expr, None, stmt.text)
        scalar = ScalarHome(name=stmt.value.name, dtype=stmt.value.dtype)
        homes.ops.append(
            plan.ReduceVector(dst=scalar, op=stmt.op, over=over, expr=stmt.expr, homes=found, text=stmt.text)
        )
        homes.scalars[stmt.value.name] = scalar
        return
    rows = stmt.value.indices[0]
    if len(stmt.value.indices) != 1 or not rules.division.owns(rows):
        raise reject(stmt.span, Code.REDUCTION_SHAPE, f"{stmt.value}: a reduction of a tile leaves one number a row")
    layout = rules.division.register_tile("", stmt.value.dtype, rows, over).layout
    found = homes.resolve(stmt.expr, layout, stmt.text)
    dst = RowTile(name=stmt.value.name, dtype=stmt.value.dtype, layout=layout)
    split = rules.division.split_of(over)
    parts = split.parts // split.across if split else 1
    homes.ops.append(
        plan.ReduceColumns(dst=dst, op=stmt.op, layout=layout, expr=stmt.expr, homes=found, text=stmt.text, parts=parts)
    )
    if split and split.across > 1:
        exchange(dst, stmt.text, rules, homes, stmt.op)
    homes.rows[stmt.value.name] = dst


def select_scan(stmt: tile.Scan, homes: Homes) -> None:
    """The elements go to shared memory, where every thread adds its own prefix or suffix."""
    value = stmt.value
    if len(value.indices) != 1:
        raise reject(stmt.span, Code.REDUCTION_SHAPE, f"{value}: a running sum runs along a vector")
    letter = value.indices[0]
    found = homes.resolve(stmt.expr, None, stmt.text)
    terms = Value(name=homes.invented(value.name, "terms"), dtype=value.dtype, indices=value.indices)
    src = SharedRef(buffer=shared_buffer(terms.name, value.dtype, None, letter), axes=(letter,))
    homes.ops.append(plan.MapShared(dst=src, value=terms, expr=stmt.expr, homes=found, text=stmt.text))
    dst = homes.define_shared(value, None, letter)
    homes.ops.append(plan.ScanVector(dst=dst, src=src, op=stmt.op, text=stmt.text))
