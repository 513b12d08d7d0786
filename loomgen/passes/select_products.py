"""Selection of products: fragments and operands; and of the inverse's pieces."""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir import plan, tile
from loomgen.ir.plan import Atom, RegisterTile, SharedRef
from loomgen.ir.schedule import ProductAtom
from loomgen.ir.types import DType, Index, Value
from loomgen.passes.homes import PANEL_BYTES, Homes, block_of, shared_buffer
from loomgen.passes.select_exchange import exchange
from loomgen.passes.select_rules import Rules, reject
from loomgen.spec.codes import Code

WARPGROUP_ROWS = 64
WARPGROUP_COLS = (64, 128, 256)


def mma_atom(stmt: tile.Contract) -> Atom:
    match stmt.a.dtype:
        case DType.BF16 | DType.F16:
            return Atom.M16N8K16
        case DType.TF32:
            return Atom.M16N8K8
        case dtype:
            raise reject(
                stmt.span, Code.NO_MMA, f"no MMA instruction multiplies {dtype.value} operands", "round them first"
            )


def select_contract(stmt: tile.Contract, rules: Rules, homes: Homes) -> None:
    atom = mma_atom(stmt)
    m = stmt.value.indices[0]
    if not rules.division.owns(m):
        rows = ", ".join(sorted(rules.division.rows))
        raise reject(
            stmt.span, Code.NO_ROW_INDEX, f"{stmt.value} has no row index first: its rows must be one of {rows}"
        )
    if rules.schedule.atom is ProductAtom.WGMMA:
        homes.ops.append(_warpgroup_product(stmt, homes))
        return
    a = homes.fragment(stmt.a.value, _index_at(stmt.a, m), stmt.text)
    b, transposed = _operand(stmt.b, stmt, homes)
    acc = _accumulator(stmt, homes)
    split = rules.division.split_of(stmt.over)
    if split and split.across > 1 and acc.fragment.col_parts > 1:
        cols = stmt.value.indices[1]
        raise reject(stmt.span, Code.SPLIT_COUNT, f"{stmt.value}: {stmt.over} and {cols} are split over the same warps")
    mma = plan.Mma(
        acc=acc,
        a=a,
        b=b,
        over=stmt.over,
        atom=atom,
        transposed=transposed,
        seeded=stmt.seed is not None,
        parts=split.parts // split.across if split else 1,
        text=stmt.text,
        by_first_part=stmt.seed is not None and split is not None and split.across > 1,
    )
    homes.ops.append(mma)
    if split and split.across > 1:
        exchange(acc, stmt.text, rules, homes)


def _index_at(read: tile.TileRead, letter: Index) -> Index:
    """The value's own index that the letter stands for."""
    return next(index for index, sub in zip(read.value.indices, read.subs, strict=True) if sub.index == letter)


def _accumulator(stmt: tile.Contract, homes: Homes) -> RegisterTile:
    """The sum's array, which holds the seed."""
    m = stmt.value.indices[0]
    seed = None if stmt.seed is None else homes.fragment(stmt.seed.value, _index_at(stmt.seed, m), stmt.text)
    acc = homes.define_register(stmt.value)
    assert isinstance(acc, RegisterTile)
    if seed is not None and seed.name != acc.name:
        homes.ops.append(plan.Move(dst=acc, src=seed, text=stmt.text))
    return acc


def _warpgroup_product(stmt: tile.Contract, homes: Homes) -> plan.WarpgroupMma:
    """Both operands from shared memory, the summed index along their columns."""
    (a, a_transposed), (b, b_transposed) = (_operand(read, stmt, homes) for read in (stmt.a, stmt.b))
    lie_well = not a_transposed and not b_transposed and a.buffer.panel_bytes == b.buffer.panel_bytes == PANEL_BYTES
    m, n = stmt.value.indices
    if not lie_well or m.extent % WARPGROUP_ROWS or n.extent not in WARPGROUP_COLS or not stmt.a.dtype.is_half:
        message = f"{stmt.text}: {m.extent} x {n.extent} with {stmt.over.name} summed is no warpgroup's product"
        raise reject(stmt.span, Code.NO_WARPGROUP_PRODUCT, message, "bring both operands by `tma`, or use `atom: mma`")
    acc = _accumulator(stmt, homes)
    seeded = stmt.seed is not None
    return plan.WarpgroupMma(acc=acc, a=a, b=b, over=stmt.over, seeded=seeded, text=stmt.text)


def _operand(read: tile.TileRead, stmt: tile.Contract, homes: Homes) -> tuple[SharedRef, bool]:
    """An operand in shared memory, and whether its rows are the summed index."""
    block = block_of(homes.to_shared(read.value, stmt.text), read)
    return block, block.axes[0] == stmt.over


def select_diagonal(stmt: tile.DiagonalInverse, homes: Homes) -> None:
    source = _row_major(stmt.source.value, stmt.text, homes)
    rows, cols = stmt.value.indices
    dst = homes.define_shared(stmt.value, rows, cols)
    homes.ops.append(plan.DiagonalBlocks(dst=dst, src=source, text=stmt.text))


def _row_major(value: Value, text: str, homes: Homes) -> SharedRef:
    """The value in shared memory with its own first index along the rows."""
    known, source = homes.shared.get(value.name), homes.fragment(value, homes.row_letter(value), text)
    rows, cols = value.indices
    if source.fragment.rows == rows and (known is None or known.axes == value.indices):
        return homes.to_shared(value, text)
    ref = SharedRef(
        buffer=shared_buffer(homes.invented(value.name, "rows"), value.dtype, rows, cols), axes=(rows, cols)
    )
    homes.ops.append(plan.StoreFragment(dst=ref, src=source, transposed=source.fragment.rows != rows, text=text))
    return ref


def select_concat(stmt: tile.Concat, homes: Homes) -> None:
    """Each part's fragment is stored transposed into its rows of the whole."""
    rows, cols = stmt.value.indices
    whole = homes.define_shared(stmt.value, rows, cols)
    for p, part in enumerate(stmt.parts):
        source = homes.fragment(part, homes.row_letter(part), stmt.text)
        block_rows = part.indices[1]
        block = replace(whole, axes=(block_rows, cols), row0=p * block_rows.extent)
        homes.ops.append(plan.StoreFragment(dst=block, src=source, transposed=True, text=stmt.text))
