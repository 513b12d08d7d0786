"""Barriers where a tensor is updated in place by other threads than those that read it.

Before: operations of a plan in order. After: a block barrier stands before each store to a tensor of which another
thread may have to read the element first, and in a loop, where a later iteration may read what was stored, after it
too. None is needed where every element that a statement reads or stores is one thread's alone, and the same one's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loomgen.ir import plan
from loomgen.ir.layout import RegisterLayout, Strip
from loomgen.ir.plan import Barrier, Leaf, Plan, PlanOp, Team
from loomgen.ir.tile import Access, Coord, TensorRead
from loomgen.ir.walk import nodes
from loomgen.passes.operands import evaluated
from loomgen.passes.trace import leaves

_Use = tuple[str, tuple[Coord, ...], RegisterLayout | None]
"""A tensor's name, where it is read or stored, and the layout by which each element is one thread's, if it is."""

_Store = plan.CopyOut | plan.StoreDirect | plan.StoreScalars


def fence_updates(kernel: Plan) -> Plan:
    reads = frozenset(read for op in kernel.body for leaf in leaves(op) for read in _reads(leaf, kernel.team))
    return replace(kernel, body=_fenced(kernel.body, reads, kernel.team, in_loop=False))


def _reads(op: Leaf, team: Team) -> list[_Use]:
    found = (node for root in evaluated(op) for node in nodes(root) if isinstance(node, TensorRead))
    return [(node.tensor.name, node.coords, _deal(op, team)) for node in found if node.tensor.access is Access.INOUT]


def _deal(op: Leaf, team: Team) -> RegisterLayout | None:
    """A number a row is held by all threads of the row, a fragment that is not split by every part of the team."""
    match op:
        case plan.LoadStrip() | plan.MapFragment():
            layout = op.dst.layout
        case plan.StoreDirect():
            layout = op.src.layout
        case _:
            return None
    return layout if isinstance(layout, Strip) or layout.col_parts == team.parts else None


def _fenced(ops: Sequence[PlanOp], reads: frozenset[_Use], team: Team, *, in_loop: bool) -> tuple[PlanOp, ...]:
    out: list[PlanOp] = []
    for op in ops:
        match op:
            case plan.ChunkLoop() | plan.RangeLoop():
                out.append(replace(op, body=_fenced(op.body, reads, team, in_loop=True)))
            case plan.Conditional():
                then, orelse = (_fenced(arm, reads, team, in_loop=in_loop) for arm in (op.then, op.orelse))
                out.append(replace(op, then=then, orelse=orelse))
            case plan.CopyOut() | plan.StoreDirect() | plan.StoreScalars() if _is_foreign(op, reads, team):
                name = op.tensor.name
                after = [Barrier(scope=plan.Scope.BLOCK, reason=f"write {name} -> read {name}")] if in_loop else []
                out += [Barrier(scope=plan.Scope.BLOCK, reason=f"read {name} -> write {name}"), op, *after]
            case _:
                out.append(op)
    return tuple(out)


def _is_foreign(op: _Store, reads: frozenset[_Use], team: Team) -> bool:
    own = (op.tensor.name, op.coords, _deal(op, team))
    return any(read[0] == op.tensor.name and (own[2] is None or read != own) for read in reads)
