"""Columns that no operation of the device takes: what a statement was selected to is looked at before it is kept.

The tensor cores and the matrix loads take columns 16 at a time where elements have 16 bits, 8 at a time otherwise;
threads are dealt 16-byte chunks of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loomgen.ir import plan, tile
from loomgen.ir.plan import Atom, Fragment, Leaf, PlanOp, RegisterTile, SharedRef
from loomgen.passes.homes import CHUNK_BYTES
from loomgen.passes.operands import operands
from loomgen.passes.select_rules import reject
from loomgen.passes.trace import leaves
from loomgen.spec.codes import Code

_TILE_COLS = 8
_PAIR_COLS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Columns and what they must be a multiple of."""

    name: str
    n_cols: int
    unit: int


def require_columns(stmt: tile.Stmt, ops: Sequence[PlanOp]) -> None:
    """Raises SpecError at the statement where one of its operations has columns that cannot be cut."""
    for cut in (cut for op in ops for leaf in leaves(op) for cut in _cuts(leaf)):
        if cut.n_cols % cut.unit:
            message = f"{cut.n_cols} columns {cut.name} do not cut into tiles of {cut.unit}"
            raise reject(stmt.span, Code.TILE_COLUMNS, message, f"pad the dim to a multiple of {cut.unit}")


def _cuts(op: Leaf) -> Iterator[_Cut]:
    for home in operands(op):
        match home:
            case RegisterTile():
                yield _fragment(home.fragment, _PAIR_COLS if home.dtype.is_half else _TILE_COLS)
            case SharedRef(axes=(_, cols)) if home.buffer.dtype.is_half:
                yield _Cut(name=cols.name, n_cols=cols.extent, unit=CHUNK_BYTES // home.buffer.dtype.n_bytes)
            case _:
                pass
    match op:
        case plan.Mma():
            width = _PAIR_COLS if op.atom is Atom.M16N8K16 else _TILE_COLS
            yield _fragment(op.acc.fragment, width)
            yield _fragment(op.a.fragment, width * op.parts)
        case plan.ReduceColumns(layout=Fragment() as fragment):
            yield _fragment(fragment, _TILE_COLS * op.parts)
        case _:
            pass


def _fragment(fragment: Fragment, unit: int) -> _Cut:
    """Every part of the team has whole tiles."""
    return _Cut(name=fragment.cols.name, n_cols=fragment.cols.extent, unit=unit * fragment.col_parts)
