"""Selection of the exchange of partial results: every group of warps gets the whole of what each has a part of."""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir import plan
from loomgen.ir.plan import RegisterTile, RowTile, SharedBuffer
from loomgen.ir.tile import ReduceOp
from loomgen.ir.types import DType, Index
from loomgen.passes.homes import Homes, shared_buffer
from loomgen.passes.select_rules import Rules


def exchange(
    partial: RegisterTile | RowTile, text: str, rules: Rules, homes: Homes, op: ReduceOp = ReduceOp.SUM
) -> None:
    """Completes ``partial``, what a group of warps has of a sum or a maximum over a split index, on all of them."""
    scratch = _scratch(partial, homes.invented(partial.name, "parts"), rules.division.team)
    homes.ops.append(plan.ExchangeWrite(src=partial, scratch=scratch, text=text))
    homes.ops.append(plan.ExchangeRead(dst=partial, scratch=scratch, text=text, op=op))


def _scratch(partial: RegisterTile | RowTile, name: str, team: plan.Team) -> SharedBuffer:
    """A row for each column tile of each warp, 4 elements a thread; of numbers of rows, a row for each part."""
    if isinstance(partial, RowTile):
        rows = Index(name="part", symbol="part", extent=team.parts)
        cols = partial.layout.rows
    else:
        rows = Index(name="fragment", symbol="fragment", extent=team.warps * partial.fragment.tiles)
        cols = Index(name="element", symbol="element", extent=4 * plan.WARP_THREADS)
    return replace(shared_buffer(name, DType.F32, rows, cols), pitch=cols.extent)
