"""A plan unrolled into the operations that a thread executes, for the analyses that need an order.

Every loop runs a given number of iterations and every branch takes a given arm, inside a loop perhaps in turn; a trace
thus is one path through the kernel. Synchronisation is found on these typical paths, up to the point where rings
repeat; that none of the others lacks any is the business of `flow` and `verify_sync`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Leaf, Plan, PlanOp
from loomgen.ir.tile import ArgRead, Binary, BinaryOp, Const

Path = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """Control arrives at a loop, a branch or a group of copies; what is inside follows as events of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One execution of an operation. ``path``: child numbers from the body down; ``iteration`` of the innermost loop,
    ``turn`` of the innermost loop over chunks, with which the rings turn.

    ``blocks`` are the loops' path prefixes around the operation, outermost first (the kernel body is ``()``).
    """

    op: Leaf | Reached
    path: Path
    blocks: tuple[Path, ...]
    iteration: int
    turn: int


class _Arm(Enum):
    """Which arm a branch takes; in turn: the other one in every second iteration of the loop around it."""

    THEN = 0
    ORELSE = 1
    IN_TURN = 2

    def takes_then(self, iteration: int) -> bool:
        return iteration % 2 == 0 if self is _Arm.IN_TURN else self is _Arm.THEN


_Arms = Mapping[Path, _Arm]
_MANY = 1 << 30
_MAX_COMBINATIONS = 81
"""Of arms; a kernel with more branches is looked at with one branch at a time off the common arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    trips: int
    arms: _Arms
    blocks: tuple[Path, ...] = ((),)
    iteration: int = 0
    turn: int = 0


def traces(kernel: Plan) -> Iterator[list[Event]]:
    """The typical paths: no iteration, one, and so on until every ring has come round twice."""
    deepest = max((ring_depth(op) for op in kernel.body), default=1)
    combinations = list(_combinations(list(_branches(kernel.body, (), in_loop=False))))
    trip_counts = range(2 * deepest + 2) if any(_has_loop(op) for op in kernel.body) else (1,)
    for trips in trip_counts:
        for arms in combinations:
            yield list(_block(kernel.body, (), _Frame(trips=trips, arms=arms)))


def trace(kernel: Plan, trips: int) -> list[Event]:
    """One path: every loop between run-time bounds takes ``trips`` iterations, every branch its first arm."""
    arms = {path: _Arm.THEN for path, _ in _branches(kernel.body, (), in_loop=False)}
    return list(_block(kernel.body, (), _Frame(trips=trips, arms=arms)))


def chunk_counts(kernel: Plan) -> range:
    """Numbers of chunks worth looking at; all loops over chunks run over the cell's one sequence."""
    deepest = max((ring_depth(op) for op in kernel.body), default=1)
    return range(2 * deepest + 2) if any(_has_chunks(op) for op in kernel.body) else range(1)


def _has_chunks(op: PlanOp) -> bool:
    match op:
        case plan.ChunkLoop():
            return True
        case plan.RangeLoop():
            return any(_has_chunks(child) for child in op.body)
        case plan.Conditional():
            return any(_has_chunks(child) for child in (*op.then, *op.orelse))
        case _:
            return False


def _branches(ops: tuple[PlanOp, ...], prefix: Path, *, in_loop: bool) -> Iterator[tuple[Path, tuple[_Arm, ...]]]:
    """Each branch's path and the arms worth taking."""
    for at, op in enumerate(ops):
        path = (*prefix, at)
        match op:
            case plan.ChunkLoop() | plan.RangeLoop():
                yield from _branches(op.body, path, in_loop=True)
            case plan.Conditional():
                yield path, tuple(_Arm) if in_loop else (_Arm.THEN, _Arm.ORELSE)
                yield from _branches(op.then, (*path, 0), in_loop=in_loop)
                yield from _branches(op.orelse, (*path, 1), in_loop=in_loop)
            case _:
                pass


def _combinations(branches: list[tuple[Path, tuple[_Arm, ...]]]) -> Iterator[_Arms]:
    paths = [path for path, _ in branches]
    n_combinations = 1
    for _, arms in branches:
        n_combinations *= len(arms)
    if n_combinations <= _MAX_COMBINATIONS:
        for chosen in product(*(arms for _, arms in branches)):
            yield dict(zip(paths, chosen, strict=True))
        return
    for common in (_Arm.THEN, _Arm.ORELSE):
        yield dict.fromkeys(paths, common)
        for path, arms in branches:
            yield from ({**dict.fromkeys(paths, common), path: arm} for arm in arms if arm is not common)


def _block(ops: tuple[PlanOp, ...], prefix: Path, frame: _Frame) -> Iterator[Event]:
    for at, op in enumerate(ops):
        yield from _operation(op, (*prefix, at), frame)


def _operation(op: PlanOp, path: Path, frame: _Frame) -> Iterator[Event]:
    here = Event(op=Reached(), path=path, blocks=frame.blocks, iteration=frame.iteration, turn=frame.turn)
    match op:
        case plan.ChunkLoop() | plan.RangeLoop():
            yield here
            for iteration in range(_trips(op, frame.trips)):
                inner = _Frame(
                    trips=frame.trips,
                    arms=frame.arms,
                    blocks=(*frame.blocks, path),
                    iteration=iteration,
                    turn=iteration if isinstance(op, plan.ChunkLoop) else frame.turn,
                )
                yield from _block(op.body, path, inner)
        case plan.Preload():
            yield here
            for iteration in range(op.count):
                if iteration < frame.trips:
                    yield from _copies(op.copies, path, frame, iteration)
                yield Event(
                    op=plan.Commit(),
                    path=(*path, len(op.copies)),
                    blocks=frame.blocks,
                    iteration=iteration,
                    turn=iteration,
                )
        case plan.Prefetch():
            yield here
            if frame.iteration + op.ahead < frame.trips:
                yield from _copies(op.copies, path, frame, frame.iteration)
        case plan.Conditional():
            yield here
            side, arm = (0, op.then) if frame.arms[path].takes_then(frame.iteration) else (1, op.orelse)
            yield from _block(arm, (*path, side), frame)
        case plan.Roles():
            raise InternalError("trace", "a role's arm is looked at by itself")
        case _:
            yield replace(here, op=op)


def _trips(op: plan.ChunkLoop | plan.RangeLoop, trips: int) -> int:
    """A loop between two numbers never runs more often than they say, and once at least if they say so."""
    if isinstance(op, plan.ChunkLoop):
        return trips
    fewest, most = range_trips(op)
    return min(max(trips, min(fewest, 1)), most)


def range_trips(op: plan.RangeLoop) -> tuple[int, int]:
    """The fewest and the most iterations of a loop between integers; some number where only running it tells."""
    if isinstance(op.begin, Const) and isinstance(op.end, Const):
        n_trips = max(0, int(op.end.value) - int(op.begin.value))
        return n_trips, n_trips
    return int(_is_value_heads_of_a_key_head(op)), _MANY


def _is_value_heads_of_a_key_head(op: plan.RangeLoop) -> bool:
    """``range(HV // H)``: every key head has at least one value head."""
    match op.begin, op.end:
        case Const(value=0), Binary(op=BinaryOp.FLOORDIV, a=ArgRead(name="HV"), b=ArgRead(name="H")):
            return True
        case _:
            return False


def _copies(copies: tuple[plan.CopyIn, ...], path: Path, frame: _Frame, iteration: int) -> Iterator[Event]:
    for at, copy in enumerate(copies):
        yield Event(op=copy, path=(*path, at), blocks=frame.blocks, iteration=iteration, turn=iteration)


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
        case plan.Roles():
            for child in (child for arm in op.arms for child in arm.body):
                yield from leaves(child)
        case _:
            yield op


def ring_depth(op: PlanOp) -> int:
    """The deepest ring that an operation's copies fill."""
    depths = [leaf.dst.buffer.slots for leaf in leaves(op) if isinstance(leaf, plan.CopyIn | plan.BoxIn)]
    return max(depths, default=1)


def _has_loop(op: PlanOp) -> bool:
    if isinstance(op, plan.Conditional):
        return any(_has_loop(child) for child in (*op.then, *op.orelse))
    return isinstance(op, plan.ChunkLoop | plan.RangeLoop)
