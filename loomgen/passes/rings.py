"""Software pipelining of a chunk loop: its copies run ahead in rings, its copies out leave last.

Before: the loop's operations in program order, copies where the spec reads the tensors. After: a Preload of the first
iterations, and a loop whose body is: Arrive (all ring slots of this iteration are complete), Prefetch of a later
iteration into the slots that the previous iteration released, the computation, the copies out. One barrier at Arrive
thus serves both: the new slots are visible, the old ones are free. Where warps exchange partial sums, the copies are
issued once they have met.
"""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import assert_never

from loomgen.ir import plan, tile
from loomgen.ir.plan import CopyIn, CopyOut, Homes, Leaf, PlanOp, SharedRef
from loomgen.ir.schedule import Schedule
from loomgen.passes.trace import leaves

DEFAULT_DEPTH = 2


def pipeline_loop(stmt: tile.ForWindow, body: tuple[PlanOp, ...], schedule: Schedule) -> tuple[PlanOp, ...]:
    """The operations that carry out a chunk loop, what runs before it included."""
    inside = {home.name for op in body for leaf in leaves(op) if (home := _scalar(leaf)) is not None}
    copies = [op for op in body if isinstance(op, CopyIn) and _runs_ahead(op, inside, schedule)]
    rings = {op.dst.buffer.name: _ring(op, schedule) for op in copies}
    work = [_in_rings(op, rings) for op in body if op not in copies and not _leaves_last(op, inside)]
    leaving = [_in_rings(op, rings) for op in body if _leaves_last(op, inside)]
    before: list[PlanOp] = []
    top: list[PlanOp] = []
    for depth in sorted({ref.buffer.slots for ref in rings.values()}):
        group = [replace(op, dst=rings[op.dst.buffer.name]) for op in copies if _depth(op, rings) == depth]
        before.append(_preload(stmt, depth - 1, tuple(group)))
        ahead = tuple(replace(op, ahead=depth - 1, dst=replace(op.dst, ahead=depth - 1)) for op in group)
        top.append(_prefetch(stmt, depth - 1, ahead))
    if rings:
        work = [plan.Arrive(refs=tuple(rings.values())), *_with_copies(work, [*top, plan.Commit()])]
    loop = plan.ChunkLoop(window=stmt.window, body=(*work, *leaving), text=stmt.text, is_reversed=stmt.is_reversed)
    return (*before, loop)


def _preload(stmt: tile.ForWindow, count: int, copies: tuple[CopyIn, ...]) -> plan.Preload:
    return plan.Preload(window=stmt.window, count=count, copies=copies, is_reversed=stmt.is_reversed)


def _prefetch(stmt: tile.ForWindow, ahead: int, copies: tuple[CopyIn, ...]) -> plan.Prefetch:
    return plan.Prefetch(window=stmt.window, ahead=ahead, copies=copies, is_reversed=stmt.is_reversed)


def _with_copies(work: list[PlanOp], copies: list[PlanOp]) -> list[PlanOp]:
    """The next iteration's copies are issued once warps have met for each other's partial sums of a product, so that
    none waits for another one's copies; at the top where they do not meet. Reductions meet where their numbers are
    used, which may be late.
    """
    meet = next((at for at, op in enumerate(work) if _completes_product(op)), None)
    if meet is None:
        return [*copies, *work]
    read = work[meet]
    assert isinstance(read, plan.ExchangeRead)
    sums = plan.Arrive(refs=(SharedRef(buffer=read.scratch, axes=()),))
    return [*work[:meet], sums, *copies, *work[meet:]]


def _completes_product(op: PlanOp) -> bool:
    return isinstance(op, plan.ExchangeRead) and isinstance(op.dst, plan.RegisterTile)


def _runs_ahead(copy: CopyIn, inside: set[str], schedule: Schedule) -> bool:
    """Its address is known an iteration earlier, and there is a slot to spare."""
    return _is_fixed(copy.homes, inside) and schedule.ring(copy.dst.buffer.name) != 1


def _leaves_last(op: PlanOp, inside: set[str]) -> bool:
    """Its address is the same at the end of the iteration as where the spec stores."""
    return isinstance(op, CopyOut) and _is_fixed(op.homes, inside)


def _is_fixed(homes: Homes, inside: set[str]) -> bool:
    """No scalar that the iteration computes, one of ``inside``, is in the address."""
    return all(name not in inside for name, _ in homes)


def _scalar(op: Leaf) -> plan.ScalarHome | None:
    return op.dst if isinstance(op, plan.MapScalar | plan.ReduceVector) else None


def _ring(copy: CopyIn, schedule: Schedule) -> SharedRef:
    depth = schedule.ring(copy.dst.buffer.name) or DEFAULT_DEPTH
    return replace(copy.dst, buffer=replace(copy.dst.buffer, slots=depth))


def _depth(copy: CopyIn, rings: dict[str, SharedRef]) -> int:
    return rings[copy.dst.buffer.name].buffer.slots


def _in_rings(op: PlanOp, rings: dict[str, SharedRef]) -> PlanOp:
    """The operation with its references to ring tiles made references to the ring."""
    match op:
        case plan.Conditional():
            return replace(op, then=_all_in_rings(op.then, rings), orelse=_all_in_rings(op.orelse, rings))
        case plan.ChunkLoop() | plan.RangeLoop():
            return replace(op, body=_all_in_rings(op.body, rings))
        case plan.Preload() | plan.Prefetch() | plan.Roles():
            return op
        case _:
            return _leaf_in_rings(op, rings)


def _all_in_rings(ops: tuple[PlanOp, ...], rings: dict[str, SharedRef]) -> tuple[PlanOp, ...]:
    return tuple(_in_rings(op, rings) for op in ops)


def _leaf_in_rings(op: Leaf, rings: dict[str, SharedRef]) -> Leaf:
    def ref(old: SharedRef) -> SharedRef:
        ring = rings.get(old.buffer.name)
        return old if ring is None else replace(old, buffer=ring.buffer)

    def homes(old: Homes) -> Homes:
        return tuple((name, ref(home) if isinstance(home, SharedRef) else home) for name, home in old)

    match op:
        case plan.LoadFragment() | plan.CopyOut() | plan.BoxOut():
            return replace(op, src=ref(op.src))
        case plan.StoreFragment() | plan.StoreRows():
            return replace(op, dst=ref(op.dst))
        case plan.Mma():
            return replace(op, b=ref(op.b))
        case plan.WarpgroupMma():
            return replace(op, a=ref(op.a), b=ref(op.b))
        case plan.MapFragment() | plan.MapScalar() | plan.MapRows() | plan.ReduceColumns() | plan.ReduceVector():
            return replace(op, homes=homes(op.homes))
        case plan.MapShared():
            return replace(op, dst=ref(op.dst), homes=homes(op.homes))
        case plan.DiagonalBlocks() | plan.ScanVector():
            return replace(op, dst=ref(op.dst), src=ref(op.src))
        case plan.StoreScalars():
            return replace(op, src=ref(op.src)) if isinstance(op.src, SharedRef) else op
        case plan.CopyIn() | plan.BoxIn():
            return replace(op, dst=ref(op.dst))
        case (
            plan.StoreDirect()
            | plan.LoadStrip()
            | plan.Move()
            | plan.ExchangeWrite()
            | plan.ExchangeRead()
            | plan.Synchronisation()
        ):
            return op
        case _:
            assert_never(op)
