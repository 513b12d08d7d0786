"""Plan -> Plan: copies that no ring holds are issued first in their block, in the order of their first use.

Before: copies stand where the spec reads the tensors. After: at the top of the kernel or loop body, one group a using
statement, each closed by a Commit, so that the wait before a statement leaves the copies of later statements in flight.
A copy whose address depends on a value of the block stays where it is; copies that stand together there are of one
group where the wait for a later one, which is for all before it, comes no later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loomgen.ir import plan
from loomgen.ir.plan import CopyIn, Plan, PlanOp
from loomgen.ir.walk import tile_reads
from loomgen.passes.effects import accesses
from loomgen.passes.trace import leaves


def group_copies(kernel: Plan) -> Plan:
    return replace(kernel, body=_grouped(kernel.body, kernel.team))


def _grouped(body: tuple[PlanOp, ...], team: plan.Team) -> tuple[PlanOp, ...]:
    early = [op for op in body if isinstance(op, CopyIn) and not any(True for _ in tile_reads(op.source))]
    rest = _committed([part for op in body if op not in early for part in _in_place(op, team)], team)
    first_use = {op.dst.buffer.name: _first_use(op.dst.buffer.name, rest, team) for op in early}
    ordered = sorted(early, key=lambda op: first_use[op.dst.buffer.name][0])
    issued: list[PlanOp] = []
    for at, op in enumerate(ordered):
        issued.append(op)
        statement = first_use[op.dst.buffer.name][1]
        if at + 1 == len(ordered) or first_use[ordered[at + 1].dst.buffer.name][1] != statement:
            issued.append(plan.Commit())
    return (*issued, *rest)


def _in_place(op: PlanOp, team: plan.Team) -> Iterator[PlanOp]:
    match op:
        case plan.ChunkLoop() | plan.RangeLoop():
            yield replace(op, body=_grouped(op.body, team))
        case plan.Roles():
            yield replace(op, arms=tuple(replace(arm, body=_grouped(arm.body, arm.team)) for arm in op.arms))
        case plan.Conditional():
            yield replace(op, then=_grouped(op.then, team), orelse=_grouped(op.orelse, team))
        case _:
            yield op


def _committed(ops: list[PlanOp], team: plan.Team) -> list[PlanOp]:
    """Closes the groups of the copies among ``ops``."""
    committed: list[PlanOp] = []
    for at, op in enumerate(ops):
        committed.append(op)
        run = _copies(ops[at:])
        uses = [_first_use(copy.dst.buffer.name, ops[at + len(run) :], team)[0] for copy in run]
        if uses and all(uses[0] < use for use in uses[1:]):
            committed.append(plan.Commit())
    return committed


def _copies(ops: Sequence[PlanOp]) -> list[CopyIn]:
    """Those that stand together at the beginning."""
    found: list[CopyIn] = []
    for op in ops:
        if not isinstance(op, CopyIn):
            break
        found.append(op)
    return found


def _first_use(buffer: str, ops: Sequence[PlanOp], team: plan.Team) -> tuple[int, str]:
    """Position and statement of the first operation that touches a buffer."""
    position = 0
    for op in ops:
        for leaf in leaves(op):
            position += 1
            if any(access.buffer.name == buffer for access in accesses(leaf, team)):
                return position, getattr(leaf, "text", "")
    return position, ""
