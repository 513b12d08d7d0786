"""All ways through a plan as one graph, and whether some way leaves two conflicting accesses unordered.

A node is an execution of an operation; it names the nodes that may come just before it. A branch's arms lie side by
side, a loop between run-time bounds may be left after no iteration, one or two. So the graph has every combination of
arms and trip counts and yet grows with the plan only. It is complete: of a way on which two accesses are unordered,
an iteration that neither of them belongs to can be left out, and they stay so, for what is left out are waits,
barriers and commits. Thus two iterations of such a loop do. Loops over chunks, whose rings turn, all run over the
cell's one sequence: there is a graph for each number of chunks, up to two rounds of the deepest ring.

Of the ways from an access to a node only the worst counts: where its copies are in flight, with fewest groups
committed since; else landed but behind no barrier; else ordered. The worse state stays the worse one whatever follows,
so that one number a node, the largest over its predecessors, stands for all ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Barrier, Plan, PlanOp, Scope
from loomgen.passes.conflicts import Conflicts, Touch
from loomgen.passes.trace import Event, Path, Reached, chunk_counts, range_trips

_Before = tuple[int, ...]
_Ints = npt.NDArray[np.int32]
_ORDERED, _LANDED, _OPEN = 0, 1, 1 << 20
"""States of an access; a copy whose group is committed, with k more after it, is ``_OPEN - 1 - k``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """What stands before one operation: a wait, a barrier, or both in this order."""

    pending: int | None = None
    scope: Scope = Scope.THREAD
    wait_reason: str = ""
    barrier_reason: str = ""


Placement = Mapping[Path, Sync]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    event: Event
    before: _Before


def graphs(kernel: Plan) -> Iterator[list[Node]]:
    """One for each number of chunks; nodes stand after those that come before them."""
    for n_chunks in chunk_counts(kernel):
        builder = _Builder(n_chunks=n_chunks)
        builder.block(kernel.body, (), _At(), ())
        yield builder.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """As in `Event`."""

    blocks: tuple[Path, ...] = ((),)
    iteration: int = 0
    turn: int = 0


@dataclass(slots=True, kw_only=True)
class _Builder:
    """``before``: the nodes, of those made so far, that may come just before what is made next."""

    n_chunks: int
    nodes: list[Node] = field(default_factory=list)

    def block(self, ops: tuple[PlanOp, ...], prefix: Path, at: _At, before: _Before) -> _Before:
        for number, op in enumerate(ops):
            before = self._operation(op, (*prefix, number), at, before)
        return before

    def _operation(self, op: PlanOp, path: Path, at: _At, before: _Before) -> _Before:
        match op:
            case plan.ChunkLoop():
                before = self._node(Reached(), path, at, before)
                for turn in range(self.n_chunks):
                    inner = _At(blocks=(*at.blocks, path), iteration=turn, turn=turn)
                    before = self.block(op.body, path, inner, before)
                return before
            case plan.RangeLoop():
                return self._range_loop(op, path, at, self._node(Reached(), path, at, before))
            case plan.Conditional():
                before = self._node(Reached(), path, at, before)
                then = self.block(op.then, (*path, 0), at, before)
                return tuple(dict.fromkeys((*then, *self.block(op.orelse, (*path, 1), at, before))))
            case plan.Preload():
                before = self._node(Reached(), path, at, before)
                for turn in range(op.count):
                    ahead = _At(blocks=at.blocks, iteration=turn, turn=turn)
                    before = self._copies(op.copies, path, ahead, before, exists=turn < self.n_chunks)
                    before = self._node(plan.Commit(), (*path, len(op.copies)), ahead, before)
                return before
            case plan.Prefetch():
                before = self._node(Reached(), path, at, before)
                return self._copies(op.copies, path, at, before, exists=at.turn + op.ahead < self.n_chunks)
            case plan.Roles():
                raise InternalError("synchronise", "a role's arm is looked at by itself")
            case _:
                return self._node(op, path, at, before)

    def _range_loop(self, op: plan.RangeLoop, path: Path, at: _At, before: _Before) -> _Before:
        fewest, most = range_trips(op)
        ends = before if fewest == 0 else ()
        for iteration in range(min(most, 2)):
            inner = _At(blocks=(*at.blocks, path), iteration=iteration, turn=at.turn)
            before = self.block(op.body, path, inner, before)
            ends += before if iteration + 1 >= min(fewest, 2) else ()
        return tuple(dict.fromkeys(ends))

    def _copies(
        self, copies: tuple[plan.CopyIn, ...], prefix: Path, at: _At, before: _Before, *, exists: bool
    ) -> _Before:
        return self.block(copies, prefix, at, before) if exists else before

    def _node(self, op: plan.Leaf | Reached, path: Path, at: _At, before: _Before) -> _Before:
        event = Event(op=op, path=path, blocks=at.blocks, iteration=at.iteration, turn=at.turn)
        self.nodes.append(Node(event=event, before=before))
        return (len(self.nodes) - 1,)


# --------------------------------------------------------------------------- is a pair unordered on some way?


@dataclass(slots=True, kw_only=True)
class Flow:
    """A graph with the accesses of its nodes; ``conflicts[s][a, b]``: they conflict at scope s."""

    nodes: list[Node]
    touches: list[list[Touch]]
    conflicts: dict[Scope, npt.NDArray[np.bool_]]

    @classmethod
    def of(cls, nodes: list[Node], conflicts: Conflicts) -> Flow:
        is_real = [not isinstance(node.event.op, plan.Arrive) for node in nodes]
        touches = [conflicts.touches(at, node.event) if is_real[at] else [] for at, node in enumerate(nodes)]
        by_place = {touch.place: touch for of_node in touches for touch in of_node}
        number = {place: n for n, place in enumerate(by_place)}
        scopes = [[conflicts.scope(src, dst) for dst in by_place.values()] for src in by_place.values()]
        at = np.array([number[touch.place] for of_node in touches for touch in of_node], dtype=np.int64)
        found = {}
        for scope in Scope:
            is_at = np.array([[other is scope for other in row] for row in scopes], dtype=np.bool_)
            found[scope] = is_at.reshape(len(by_place), len(by_place))[np.ix_(at, at)]
        return cls(nodes=nodes, touches=touches, conflicts=found)

    def unordered_way(self, placement: Placement, needless: frozenset[Path]) -> list[Event] | None:
        """The events from an access to a conflicting one that nothing orders after it; None where there is no way."""
        found = [self._first_unordered(scope, placement, needless) for scope in Scope]
        pairs = [(node, src, scope) for scope, pair in zip(Scope, found, strict=True) if pair for node, src in [pair]]
        if not pairs:
            return None
        node, src, scope = min(pairs, key=lambda pair: pair[0])
        return self._way(node, src, scope, placement, needless)

    def _first_unordered(self, scope: Scope, placement: Placement, needless: frozenset[Path]) -> tuple[int, int] | None:
        """(node, number of the access that it conflicts with)."""
        after = self._states(scope, placement, needless)
        is_bad = _LANDED if scope is Scope.THREAD else _ORDERED
        first = 0
        for at, node in enumerate(self.nodes):
            now = _synced(self._before(node, after), node.event, scope, placement)
            for number in range(first, first + len(self.touches[at])):
                hazard = self.conflicts[scope][:, number] & (now > is_bad)
                if hazard.any():
                    return at, int(np.argmax(hazard))
            first += len(self.touches[at])
        return None

    def _states(self, scope: Scope, placement: Placement, needless: frozenset[Path]) -> _Ints:
        """Each access's worst state after each node."""
        n_touches = sum(map(len, self.touches))
        after = np.zeros((len(self.nodes), n_touches), dtype=np.int32)
        first = 0
        for at, node in enumerate(self.nodes):
            state = _synced(self._before(node, after), node.event, scope, placement)
            if isinstance(node.event.op, plan.Commit) and node.event.path not in needless:
                state[state > _LANDED] -= 1
            for touch in self.touches[at]:
                state[first] = _OPEN if touch.access.is_async else _LANDED
                first += 1
            after[at] = state
        return after

    def _before(self, node: Node, after: _Ints) -> _Ints:
        if not node.before:
            return np.zeros(after.shape[1], dtype=np.int32)
        worst: _Ints = after[list(node.before)].max(axis=0)
        return worst

    def _way(self, node: int, src: int, scope: Scope, placement: Placement, needless: frozenset[Path]) -> list[Event]:
        """Backwards through the predecessors in which the access is worst."""
        states = self._states(scope, placement, needless)[:, src]
        start = next(at for at, of_node in enumerate(np.cumsum([len(t) for t in self.touches])) if of_node > src)
        way = [node]
        while way[-1] != start:
            way.append(max(self.nodes[way[-1]].before, key=lambda at: int(states[at])))
        return [self.nodes[at].event for at in reversed(way)]


def _synced(state: _Ints, event: Event, scope: Scope, placement: Placement) -> _Ints:
    """After what stands before the event, or the event itself where it is a barrier of its own."""
    if isinstance(event.op, Barrier):
        state = _behind(state, event.op.scope, scope)
    sync = placement.get(event.path)
    if sync is None:
        return state
    if sync.pending is not None:
        is_done = (state > _LANDED) & (state <= _OPEN - 1 - sync.pending)
        state = state.copy()
        state[is_done] = _LANDED
    return _behind(state, sync.scope, scope)


def _behind(state: _Ints, barrier: Scope, scope: Scope) -> _Ints:
    if barrier is Scope.THREAD or barrier.value < scope.value:
        return state
    found: _Ints = np.where(state == _LANDED, np.int32(_ORDERED), state)
    return found
