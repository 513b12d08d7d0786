"""A plan unrolled into the operations that a thread executes, for the analyses that need an order.

Every loop runs a given number of iterations and every branch takes a given arm; a trace thus is one path through the
kernel. The synchronisation passes look at all paths up to the point where rings repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from loomgen.ir import plan
from loomgen.ir.plan import Leaf, Plan, PlanOp

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """Control arrives at a loop, a branch or a group of copies; what is inside follows as events of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One execution of an operation. ``path``: child numbers from the body down; ``iteration`` of the innermost loop.

    ``blocks`` are the loops' path prefixes around the operation, outermost first (the kernel body is ``()``).
    """

    op: Leaf | Reached
    path: Path
    blocks: tuple[Path, ...]
    iteration: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    trips: int
    take_then: bool
    blocks: tuple[Path, ...] = ((),)
    iteration: int = 0


def traces(kernel: Plan) -> Iterator[list[Event]]:
    """All paths worth looking at: no iteration, one, and so on until every ring has come round twice."""
    deepest = max((ring_depth(op) for op in kernel.body), default=1)
    arms = (True, False) if any(_has_branch(op) for op in kernel.body) else (True,)
    trip_counts = range(2 * deepest + 2) if any(_has_loop(op) for op in kernel.body) else (1,)
    for trips in trip_counts:
        for take_then in arms:
            yield list(_block(kernel.body, (), _Frame(trips=trips, take_then=take_then)))


def _block(ops: tuple[PlanOp, ...], prefix: Path, frame: _Frame) -> Iterator[Event]:
    for at, op in enumerate(ops):
        yield from _operation(op, (*prefix, at), frame)


def _operation(op: PlanOp, path: Path, frame: _Frame) -> Iterator[Event]:
    here = Event(op=Reached(), path=path, blocks=frame.blocks, iteration=frame.iteration)
    match op:
        case plan.ChunkLoop() | plan.RangeLoop():
            yield here
            for iteration in range(frame.trips):
                inner = _Frame(
                    trips=frame.trips,
                    take_then=frame.take_then,
                    blocks=(*frame.blocks, path),
                    iteration=iteration,
                )
                yield from _block(op.body, path, inner)
        case plan.Preload():
            yield here
            for iteration in range(op.count):
                if iteration < frame.trips:
                    yield from _copies(op.copies, path, frame, iteration)
                yield Event(op=plan.Commit(), path=(*path, len(op.copies)), blocks=frame.blocks, iteration=iteration)
        case plan.Prefetch():
            yield here
            if frame.iteration + op.ahead < frame.trips:
                yield from _copies(op.copies, path, frame, frame.iteration)
        case plan.Conditional():
            yield here
            side, arm = (0, op.then) if frame.take_then else (1, op.orelse)
            yield from _block(arm, (*path, side), frame)
        case _:
            yield replace(here, op=op)


def _copies(copies: tuple[plan.CopyIn, ...], path: Path, frame: _Frame, iteration: int) -> Iterator[Event]:
    for at, copy in enumerate(copies):
        yield Event(op=copy, path=(*path, at), blocks=frame.blocks, iteration=iteration)


def leaves(op: PlanOp) -> Iterator[Leaf]:
    """The operations inside, each once, in program order."""
    match op:
        case plan.ChunkLoop() | plan.RangeLoop():
            for child in op.body:
                yield from leaves(child)
        case plan.Preload() | plan.Prefetch():
            yield from op.copies
        case plan.Conditional():
            for child in (*op.then, *op.orelse):
                yield from leaves(child)
        case _:
            yield op


def ring_depth(op: PlanOp) -> int:
    """The deepest ring that an operation's copies fill."""
    depths = [leaf.dst.buffer.slots for leaf in leaves(op) if isinstance(leaf, plan.CopyIn)]
    return max(depths, default=1)


def _has_loop(op: PlanOp) -> bool:
    if isinstance(op, plan.Conditional):
        return any(_has_loop(child) for child in (*op.then, *op.orelse))
    return isinstance(op, plan.ChunkLoop | plan.RangeLoop)


def _has_branch(op: PlanOp) -> bool:
    if isinstance(op, plan.ChunkLoop | plan.RangeLoop):
        return any(_has_branch(child) for child in op.body)
    return isinstance(op, plan.Conditional)
