"""Reductions over a split index meet once: the parts of those that are close together are combined in one place.

Before: each partial result is published and completed in one go. After: numbers of rows that are published without a
use of any of them in between are completed together, in the same order, where the first one is used or the block ends,
so that one barrier serves them all. A product's sums, which are many and used at once, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from loomgen.ir.plan import ExchangeRead, PlanOp, RowTile
from loomgen.passes.operands import touched_registers


def gather_exchanges(block: Sequence[PlanOp]) -> list[PlanOp]:
    """The operations of one block; those of the blocks inside stay where they are."""
    out: list[PlanOp] = []
    waiting: list[ExchangeRead] = []
    for op in block:
        if isinstance(op, ExchangeRead) and isinstance(op.dst, RowTile):
            waiting.append(op)
            continue
        if touched_registers(op) & {read.dst.name for read in waiting}:
            out += waiting
            waiting = []
        out.append(op)
    return [*out, *waiting]
