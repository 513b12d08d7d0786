"""Plan -> Plan: barriers and waits inferred from the shared-memory accesses.

Before: no Wait, no Barrier but where a tensor is updated in place. After: on every path, two accesses that overlap in
shared memory, at least one of them a write, are ordered: an asynchronous copy by a wait of the thread that issued it,
different threads by a barrier at least as wide as the distance between them (none for one thread, a warp barrier inside
a warp, a block barrier beyond).

Each path (`trace.traces`) is walked in order; the first unordered pair gets its synchronisation at the latest point
that still separates it, hoisted out of the loops that do not contain both, so that it also serves every interval it
stabs. Pairs inside the innermost loops come first: what they need may serve the rest. Last, whatever can be taken
away again is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Barrier, Plan, PlanOp, ProxyFence, Scope, SharedBuffer, SharedLayout, Wait
from loomgen.passes.effects import Access, accesses
from loomgen.passes.role_arms import arms, as_plan, handed_over
from loomgen.passes.trace import Event, Path, Reached, traces
from loomgen.passes.words import Words, physical_words

_ROUNDS = 200
_NO_THREAD = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """What stands before one operation, in this order: a wait, a fence for the hardware's accesses, a barrier."""

    pending: int | None = None
    scope: Scope = Scope.THREAD
    wait_reason: str = ""
    fence_reason: str = ""
    barrier_reason: str = ""


Placement = dict[Path, Sync]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Touch:
    """One access of one event, the ``number``-th of its operation."""

    at: int
    event: Event
    number: int
    access: Access

    @property
    def place(self) -> _Place:
        slot = (self.event.turn + self.access.ahead) % self.access.buffer.slots
        return self.event.path, self.number, slot


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    """Two conflicting accesses, the earlier one first, and how far apart their threads are."""

    src: _Touch
    dst: _Touch
    scope: Scope

    @property
    def depth(self) -> int:
        """How many loops contain both."""
        return len(_common_blocks(self.src.event, self.dst.event))

    @property
    def needs_fence(self) -> bool:
        """A thread wrote what the hardware then touches."""
        return self.src.access.is_write and self.dst.access.by_hardware and not self.src.access.by_hardware


def synchronise(kernel: Plan, layout: SharedLayout) -> Plan:
    """The whole block, or each role's arm by itself: between roles the rings order what they share."""
    found = arms(kernel)
    if not found:
        return _synchronise(kernel, layout)
    done = (replace(arm, body=_synchronise(as_plan(arm), layout).body) for arm in found)
    return replace(kernel, body=(plan.Roles(arms=tuple(done)),))


def _synchronise(kernel: Plan, layout: SharedLayout) -> Plan:
    conflicts = _Conflicts(kernel=kernel, layout=layout, handed_over=handed_over(kernel))
    paths = [(events, conflicts.edges(events)) for events in traces(kernel)]
    placement: Placement = {}
    for _ in range(_ROUNDS):
        edge, events = _first_unordered(paths, placement)
        if edge is None:
            real = [(events, _real(edges)) for events, edges in paths]
            placement = _minimal(real, placement)
            return _insert(kernel, placement, _needless_commits(kernel, real, placement))
        _place(placement, edge, events)
    raise InternalError("synchronise", "no fixed point: an ordering keeps missing")


# --------------------------------------------------------------------------- conflicts


_Place = tuple[Path, int, int]
"""An access of an operation at one slot: path, number of the access, slot."""


@dataclass(slots=True)
class _Conflicts:
    kernel: Plan
    layout: SharedLayout
    handed_over: frozenset[SharedBuffer]
    known: dict[Path, tuple[Access, ...]] = field(default_factory=dict)
    extents: dict[_Place, _Extent] = field(default_factory=dict)
    scopes: dict[tuple[_Place, _Place], Scope | None] = field(default_factory=dict)

    def edges(self, events: Sequence[Event]) -> list[_Edge]:
        """All conflicting pairs of a path, by their later end."""
        touches: list[_Touch] = []
        found: list[_Edge] = []
        for at, event in enumerate(events):
            if isinstance(event.op, Reached):
                continue
            if event.path not in self.known:
                self.known[event.path] = self._own(accesses(event.op, self.kernel.team))
            new = [
                _Touch(at=at, event=event, number=number, access=access)
                for number, access in enumerate(self.known[event.path])
            ]
            for dst in new:
                found.extend(self._edges_to(dst, touches))
            touches.extend(new)
        return found

    def _own(self, found: tuple[Access, ...]) -> tuple[Access, ...]:
        return tuple(access for access in found if access.buffer not in self.handed_over)

    def _edges_to(self, dst: _Touch, earlier: list[_Touch]) -> Iterator[_Edge]:
        for src in earlier:
            scope = self._scope(src, dst)
            if scope is None:
                continue
            edge = _Edge(src=src, dst=dst, scope=scope)
            if scope is not Scope.THREAD or src.access.is_async or edge.needs_fence:
                yield edge

    def _scope(self, src: _Touch, dst: _Touch) -> Scope | None:
        if not (src.access.is_write or dst.access.is_write):
            return None
        key = (src.place, dst.place)
        if key not in self.scopes:
            self.scopes[key] = _distance(self._extent(src), self._extent(dst))
        return self.scopes[key]

    def _extent(self, touch: _Touch) -> _Extent:
        if touch.place not in self.extents:
            threads, words = physical_words(touch.access, touch.place[2], self.layout)
            self.extents[touch.place] = _Extent.of(threads, words)
        return self.extents[touch.place]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extent:
    """The words from ``first`` on, with the lowest and the highest thread touching each (none: lowest > highest)."""

    first: int
    lowest: Words
    highest: Words

    @classmethod
    def of(cls, threads: Words, words: Words) -> _Extent:
        first, n_words = int(words.min()), int(words.max() - words.min()) + 1
        lowest, highest = np.full(n_words, _NO_THREAD), np.full(n_words, -1)
        np.minimum.at(lowest, words - first, threads)
        np.maximum.at(highest, words - first, threads)
        return cls(first=first, lowest=lowest, highest=highest)

    def between(self, begin: int, end: int) -> tuple[Words, Words]:
        part = slice(begin - self.first, end - self.first)
        return self.lowest[part], self.highest[part]


def _distance(a: _Extent, b: _Extent) -> Scope | None:
    """How far apart the threads are that touch the same word; None if there is no such word."""
    begin = max(a.first, b.first)
    end = min(a.first + len(a.lowest), b.first + len(b.lowest))
    if begin >= end:
        return None
    (a_low, a_high), (b_low, b_high) = a.between(begin, end), b.between(begin, end)
    both = (a_low <= a_high) & (b_low <= b_high)
    if not both.any():
        return None
    low, high = np.minimum(a_low, b_low)[both], np.maximum(a_high, b_high)[both]
    if (low == high).all():
        return Scope.THREAD
    return Scope.WARP if (low // plan.WARP_THREADS == high // plan.WARP_THREADS).all() else Scope.BLOCK


# --------------------------------------------------------------------------- is a pair ordered?

_Paths = list[tuple[list[Event], list[_Edge]]]


def _first_unordered(paths: _Paths, placement: Placement) -> tuple[_Edge | None, list[Event]]:
    """The unordered pair to mend next: innermost first, then earliest end."""
    worst: tuple[tuple[int, int], _Edge, list[Event]] | None = None
    for events, edges in paths:
        syncs = _sync_positions(events, placement)
        for edge in edges:
            if _is_ordered(edge, events, syncs):
                continue
            key = (-edge.depth, edge.dst.at)
            if worst is None or key < worst[0]:
                worst = (key, edge, events)
        if worst is not None and worst[0][0] < -1:
            break
    return (None, []) if worst is None else (worst[1], worst[2])


def _sync_positions(events: Sequence[Event], placement: Placement) -> list[tuple[int, Sync]]:
    """(event number, what is executed before it), in execution order."""
    found: list[tuple[int, Sync]] = []
    for at, event in enumerate(events):
        if isinstance(event.op, Barrier):
            found.append((at, Sync(scope=event.op.scope)))
        if event.path in placement:
            found.append((at, placement[event.path]))
    return found


def _is_ordered(edge: _Edge, events: Sequence[Event], syncs: Sequence[tuple[int, Sync]]) -> bool:
    between = [(at, sync) for at, sync in syncs if edge.src.at < at <= edge.dst.at]
    if edge.needs_fence:
        between = between[next((n for n, (_, sync) in enumerate(between) if sync.fence_reason), len(between)) :]
        if edge.scope is Scope.THREAD:
            return bool(between)
    if not edge.src.access.is_async:
        return any(sync.scope.value >= edge.scope.value for _, sync in between)
    done_from = next((n for n, (at, sync) in enumerate(between) if _completes(edge, events, at, sync)), None)
    if done_from is None:
        return False
    return edge.scope is Scope.THREAD or any(s.scope.value >= edge.scope.value for _, s in between[done_from:])


def _completes(edge: _Edge, events: Sequence[Event], at: int, sync: Sync) -> bool:
    return sync.pending is not None and _younger_groups(edge, events, at) >= sync.pending


def _younger_groups(edge: _Edge, events: Sequence[Event], at: int) -> int:
    """Groups committed after the group of the edge's source, before event ``at``; -1 if its own is still open."""
    commits = sum(isinstance(event.op, plan.Commit) for event in events[edge.src.at : at])
    return commits - 1


# --------------------------------------------------------------------------- placing


def _common_blocks(a: Event, b: Event) -> tuple[Path, ...]:
    return tuple(block for block in a.blocks if block in b.blocks)


def _place(placement: Placement, edge: _Edge, events: Sequence[Event]) -> None:
    """A wait and a barrier before the later access, hoisted to the innermost block that contains both."""
    block = _common_blocks(edge.src.event, edge.dst.event)[-1]
    path = _insertion_point(edge, len(block))
    at = _reached_at(path, edge, events)
    old = placement.get(path, Sync())
    reason = _reason(edge)
    if edge.src.access.is_async:
        younger = _younger_groups(edge, events, at)
        if younger < 0:
            raise InternalError("synchronise", f"copy is never committed before its use: {reason}")
        if old.pending is None or younger < old.pending:
            old = replace(old, pending=younger, wait_reason=reason)
    if edge.needs_fence:
        old = replace(old, fence_reason=reason)
    if edge.scope.value > old.scope.value:
        old = replace(old, scope=edge.scope, barrier_reason=reason)
    placement[path] = old


def _insertion_point(edge: _Edge, block_length: int) -> Path:
    """The later access's ancestor in the common block, deepened past what is no loop while the pair is apart in it."""
    path = edge.dst.event.path
    src = edge.src.event.path
    length = block_length + 1
    in_one_iteration = edge.src.event.iteration == edge.dst.event.iteration
    while in_one_iteration and length < len(path) and src[:length] == path[:length]:
        length += 1
    return path[:length]


def _reached_at(path: Path, edge: _Edge, events: Sequence[Event]) -> int:
    """The number of the event before which a sync at ``path`` runs last for this edge."""
    return max(at for at in range(edge.src.at + 1, edge.dst.at + 1) if events[at].path == path)


def _reason(edge: _Edge) -> str:
    return f"{_describe(edge.src)} -> {_describe(edge.dst)}"


def _describe(touch: _Touch) -> str:
    verb = "write" if touch.access.is_write else "read"
    return f"{verb} {touch.access.buffer.name}"


def _real(edges: Sequence[_Edge]) -> list[_Edge]:
    """Without those of an Arrive, which touches nothing: it only draws a loop's waits to the top of an iteration."""
    return [edge for edge in edges if not any(isinstance(end.event.op, plan.Arrive) for end in (edge.src, edge.dst))]


def _minimal(paths: _Paths, placement: Placement) -> Placement:
    """Without what other waits and barriers make superfluous."""
    for path in sorted(placement, reverse=True):
        for weaker in _weakenings(placement[path]):
            trial = {**placement, path: weaker}
            if _first_unordered(paths, trial)[0] is None:
                placement = trial
                break
    return {path: sync for path, sync in placement.items() if sync != Sync()}


def _weakenings(sync: Sync) -> Iterator[Sync]:
    """Weakest first."""
    yield Sync()
    if sync.fence_reason:
        yield replace(sync, fence_reason="")
    if sync.pending is not None and sync.scope is not Scope.THREAD:
        yield replace(sync, pending=None, wait_reason="")
    for scope in (Scope.THREAD, Scope.WARP):
        if scope.value < sync.scope.value:
            yield replace(sync, scope=scope, barrier_reason="" if scope is Scope.THREAD else sync.barrier_reason)


def _needless_commits(kernel: Plan, paths: _Paths, placement: Placement) -> frozenset[Path]:
    """Commits outside loops whose copies may as well belong to the next group."""
    needless: frozenset[Path] = frozenset()
    for at, op in enumerate(kernel.body):
        trial = needless | {(at,)}
        if isinstance(op, plan.Commit) and _first_unordered(_uncommitted(paths, trial), placement)[0] is None:
            needless = trial
    return needless


def _uncommitted(paths: _Paths, commits: frozenset[Path]) -> _Paths:
    return [
        ([replace(event, op=Reached()) if event.path in commits else event for event in events], edges)
        for events, edges in paths
    ]


# --------------------------------------------------------------------------- inserting


def _insert(kernel: Plan, placement: Placement, needless: frozenset[Path]) -> Plan:
    kept = tuple(op for at, op in enumerate(kernel.body) if (at,) not in needless)
    moved = {_without(path, needless): sync for path, sync in placement.items()}
    return replace(kernel, body=_with_syncs(kept, (), moved))


def _without(path: Path, removed: frozenset[Path]) -> Path:
    """The path of an operation once operations of the kernel's body are gone."""
    return (path[0] - sum(other[0] < path[0] for other in removed), *path[1:])


def _with_syncs(ops: tuple[PlanOp, ...], prefix: Path, placement: Placement) -> tuple[PlanOp, ...]:
    out: list[PlanOp] = []
    for at, op in enumerate(ops):
        path = (*prefix, at)
        sync = placement.get(path, Sync())
        if sync.pending is not None:
            out.append(Wait(pending=sync.pending, reason=sync.wait_reason))
        if sync.fence_reason:
            out.append(ProxyFence(reason=sync.fence_reason))
        if sync.scope is not Scope.THREAD:
            out.append(Barrier(scope=sync.scope, reason=sync.barrier_reason))
        out.append(_descend(op, path, placement))
    return tuple(out)


def _descend(op: PlanOp, path: Path, placement: Placement) -> PlanOp:
    match op:
        case plan.ChunkLoop() | plan.RangeLoop():
            return replace(op, body=_with_syncs(op.body, path, placement))
        case plan.Conditional():
            then = _with_syncs(op.then, (*path, 0), placement)
            orelse = _with_syncs(op.orelse, (*path, 1), placement)
            return replace(op, then=then, orelse=orelse)
        case _:
            return op
