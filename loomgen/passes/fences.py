"""Barriers where a tensor is updated in place by other threads than those that read it.

Before: operations of a plan in order. After: a block barrier stands before each store to a tensor that another thread
may have to read first: all but those of the very element that the storing thread itself reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loomgen.ir import plan
from loomgen.ir.layout import RegisterLayout
from loomgen.ir.plan import Barrier, Leaf, PlanOp
from loomgen.ir.tile import Access, Coord, TensorRead
from loomgen.ir.walk import nodes
from loomgen.passes.operands import evaluated
from loomgen.passes.trace import leaves

_Read = tuple[str, tuple[Coord, ...], RegisterLayout | None]
"""A tensor's name, where it is read, and the layout that says by which thread."""

_Store = plan.CopyOut | plan.StoreDirect | plan.StoreScalars


def fence_updates(ops: Sequence[PlanOp]) -> tuple[PlanOp, ...]:
    reads = [read for op in ops for leaf in leaves(op) for read in _reads(leaf)]
    return _fenced(ops, reads)


def _reads(op: Leaf) -> list[_Read]:
    found = (node for root in evaluated(op) for node in nodes(root) if isinstance(node, TensorRead))
    return [(node.tensor.name, node.coords, _layout(op)) for node in found if node.tensor.access is Access.INOUT]


def _layout(op: Leaf) -> RegisterLayout | None:
    match op:
        case plan.LoadStrip() | plan.MapFragment() | plan.MapRows():
            return op.dst.layout
        case plan.StoreDirect():
            return op.src.layout
        case plan.StoreScalars(src=plan.RowTile(layout=layout)):
            return layout
        case _:
            return None


def _fenced(ops: Sequence[PlanOp], reads: list[_Read]) -> tuple[PlanOp, ...]:
    out: list[PlanOp] = []
    for op in ops:
        match op:
            case plan.ChunkLoop() | plan.RangeLoop():
                op = replace(op, body=_fenced(op.body, reads))
            case plan.Conditional():
                op = replace(op, then=_fenced(op.then, reads), orelse=_fenced(op.orelse, reads))
            case plan.CopyOut() | plan.StoreDirect() | plan.StoreScalars() if _is_foreign(op, reads):
                out.append(Barrier(scope=plan.Scope.BLOCK, reason=f"read {op.tensor.name} -> write {op.tensor.name}"))
            case _:
                pass
        out.append(op)
    return tuple(out)


def _is_foreign(op: _Store, reads: list[_Read]) -> bool:
    layout = _layout(op)
    own = (op.tensor.name, op.coords, layout)
    return any(read[0] == op.tensor.name and (layout is None or read != own) for read in reads)
