"""Plan -> Plan: barriers and waits inferred from the shared-memory accesses.

Before: no Wait, no Barrier but where a tensor is updated in place. After: on every path, two accesses that overlap in
shared memory, at least one of them a write, are ordered: an asynchronous copy by a wait of the thread that issued it,
different threads by a barrier at least as wide as the distance between them (none for one thread, a warp barrier inside
a warp, a block barrier beyond).

Each of some paths (`trace.traces`) is walked in order; the first unordered pair gets its synchronisation at the latest
point that still separates it, hoisted out of the loops that do not contain both, so that it also serves every interval
it stabs. Pairs inside the innermost loops come first: what they need may serve the rest. Whatever can be taken away
again is. Last, all ways through the plan are looked at (`flow`); one that leaves a pair unordered joins the paths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Barrier, Plan, PlanOp, Scope, SharedLayout, Wait
from loomgen.passes.conflicts import Conflicts, Edge, common_blocks
from loomgen.passes.flow import Flow, Sync, graphs
from loomgen.passes.role_arms import arms, as_plan
from loomgen.passes.sync_reasons import Pair, reason
from loomgen.passes.trace import Event, Path, Reached, traces

_ROUNDS = 200

_Placement = dict[Path, Sync]
_Paths = list[tuple[list[Event], list[Edge]]]


def synchronise(kernel: Plan, layout: SharedLayout) -> Plan:
    """The whole block, or each role's arm by itself: between roles the rings order what they share."""
    found = arms(kernel)
    if not found:
        return _synchronise(kernel, layout)
    done = (replace(arm, body=_synchronise(as_plan(arm), layout).body) for arm in found)
    return replace(kernel, body=(plan.Roles(arms=tuple(done)),))


def _synchronise(kernel: Plan, layout: SharedLayout) -> Plan:
    """The paths are a start: what is found for them is tried on all ways through the plan (`flow`), and a way on which
    something stays unordered is one path more."""
    conflicts = Conflicts(kernel=kernel, layout=layout)
    flows = [Flow.of(nodes, conflicts) for nodes in graphs(kernel)]
    paths = [(events, conflicts.edges(events)) for events in traces(kernel)]
    for _ in range(_ROUNDS):
        placement, needless = _placed(kernel, paths)
        ways = (flow.unordered_way(placement, needless) for flow in flows)
        missed = next((way for way in ways if way is not None), None)
        if missed is None:
            real = [(events, _real(edges)) for events, edges in paths]
            return _insert(kernel, _explained(real, placement), needless)
        paths.append((missed, conflicts.edges(missed)))
    raise InternalError("synchronise", "no fixed point: a way through the plan keeps missing")


def _placed(kernel: Plan, paths: _Paths) -> tuple[_Placement, frozenset[Path]]:
    """What orders everything on the given paths, and commits that it does not need."""
    placement: _Placement = {}
    for _ in range(_ROUNDS):
        edge, events = _first_unordered(paths, placement)
        if edge is None:
            real = [(events, _real(edges)) for events, edges in paths]
            placement = _minimal(real, placement)
            return placement, _needless_commits(kernel, real, placement)
        _place(placement, edge, events)
    raise InternalError("synchronise", "no fixed point: an ordering keeps missing")


# --------------------------------------------------------------------------- is a pair ordered?


def _first_unordered(paths: _Paths, placement: _Placement) -> tuple[Edge | None, list[Event]]:
    """The unordered pair to mend next: innermost first, then earliest end."""
    worst: tuple[tuple[int, int], Edge, list[Event]] | None = None
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


def _sync_positions(events: Sequence[Event], placement: _Placement) -> list[tuple[int, Sync]]:
    """(event number, what is executed before it), in execution order."""
    found: list[tuple[int, Sync]] = []
    for at, event in enumerate(events):
        if isinstance(event.op, Barrier):
            found.append((at, Sync(scope=event.op.scope)))
        if event.path in placement:
            found.append((at, placement[event.path]))
    return found


def _is_ordered(edge: Edge, events: Sequence[Event], syncs: Sequence[tuple[int, Sync]]) -> bool:
    between = _between(edge, syncs)
    if not edge.src.access.is_async:
        return any(sync.scope.value >= edge.scope.value for _, sync in between)
    wait, barrier = _arrival(edge, events, syncs)
    return wait is not None and (edge.scope is Scope.THREAD or barrier is not None)


def _between(edge: Edge, syncs: Sequence[tuple[int, Sync]]) -> list[tuple[int, Sync]]:
    return [(at, sync) for at, sync in syncs if edge.src.at < at <= edge.dst.at]


def _arrival(edge: Edge, events: Sequence[Event], syncs: Sequence[tuple[int, Sync]]) -> tuple[Path | None, Path | None]:
    """Where an asynchronous copy is waited for, and the first barrier from there on that is wide enough."""
    between = _between(edge, syncs)
    done_from = next((n for n, (at, sync) in enumerate(between) if _completes(edge, events, at, sync)), None)
    if done_from is None:
        return None, None
    wide = (at for at, sync in between[done_from:] if sync.scope.value >= edge.scope.value)
    barrier = next(wide, None)
    return events[between[done_from][0]].path, None if barrier is None else events[barrier].path


def _completes(edge: Edge, events: Sequence[Event], at: int, sync: Sync) -> bool:
    return sync.pending is not None and _younger_groups(edge, events, at) >= sync.pending


def _younger_groups(edge: Edge, events: Sequence[Event], at: int) -> int:
    """Groups committed after the group of the edge's source, before event ``at``; -1 if its own is still open."""
    commits = sum(isinstance(event.op, plan.Commit) for event in events[edge.src.at : at])
    return commits - 1


# --------------------------------------------------------------------------- placing


def _place(placement: _Placement, edge: Edge, events: Sequence[Event]) -> None:
    """A wait and a barrier before the later access, hoisted to the innermost block that contains both."""
    block = common_blocks(edge.src.event, edge.dst.event)[-1]
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
    if edge.scope.value > old.scope.value:
        old = replace(old, scope=edge.scope, barrier_reason=reason)
    placement[path] = old


def _insertion_point(edge: Edge, block_length: int) -> Path:
    """The later access's ancestor in the common block, deepened past what is no loop while the pair is apart in it."""
    path = edge.dst.event.path
    src = edge.src.event.path
    length = block_length + 1
    in_one_iteration = edge.src.event.iteration == edge.dst.event.iteration
    while in_one_iteration and length < len(path) and src[:length] == path[:length]:
        length += 1
    return path[:length]


def _reached_at(path: Path, edge: Edge, events: Sequence[Event]) -> int:
    """The number of the event before which a sync at ``path`` runs last for this edge."""
    return max(at for at in range(edge.src.at + 1, edge.dst.at + 1) if events[at].path == path)


def _reason(edge: Edge) -> str:
    return reason([_pair(edge)])


def _pair(edge: Edge) -> Pair:
    """The accesses in words; a ring's slot that is filled for a later iteration is told apart."""
    suffix = "_next" if edge.dst.access.ahead else ""
    (before, earlier), (after, later) = (
        ("write" if touch.access.is_write else "read", touch.access.buffer.name) for touch in (edge.src, edge.dst)
    )
    return (before, earlier), (after, f"{later}{suffix}")


def _real(edges: Sequence[Edge]) -> list[Edge]:
    """Without those of an Arrive, which touches nothing: it only draws waits to where it stands."""
    return [edge for edge in edges if not any(isinstance(end.event.op, plan.Arrive) for end in (edge.src, edge.dst))]


def _minimal(paths: _Paths, placement: _Placement) -> _Placement:
    """Without what other waits and barriers make superfluous."""
    for path in sorted(placement, reverse=True):
        for weaker in _weakenings(placement[path]):
            trial = {**placement, path: weaker}
            if _first_unordered(paths, trial)[0] is None:
                placement = trial
                break
    return {path: sync for path, sync in placement.items() if sync != Sync()}


def _explained(paths: _Paths, placement: _Placement) -> _Placement:
    """With the pairs of accesses in its reason that a wait or a barrier orders."""
    return {
        path: replace(
            sync,
            wait_reason=_ordered_by(paths, placement, path, replace(sync, pending=None), is_wait=True),
            barrier_reason=_ordered_by(paths, placement, path, replace(sync, scope=Scope.THREAD), is_wait=False),
        )
        for path, sync in placement.items()
    }


def _ordered_by(paths: _Paths, placement: _Placement, path: Path, weaker: Sync, *, is_wait: bool) -> str:
    """The pairs that need what ``weaker`` lacks at ``path``, and the copies that arrive there; by their later ends."""
    found: dict[tuple[Path, Path, int], Pair] = {}
    for events, edges in paths:
        full, weakened = (_sync_positions(events, each) for each in (placement, {**placement, path: weaker}))
        for edge in edges:
            ends = (edge.dst.event.path, edge.src.event.path, edge.dst.number)
            if ends in found:
                continue
            arrives = edge.src.access.is_async and _arrival(edge, events, full)[0 if is_wait else 1] == path
            if arrives or not _is_ordered(edge, events, weakened):
                found[ends] = _pair(edge)
    return reason(pair for _, pair in sorted(found.items()))


def _weakenings(sync: Sync) -> Iterator[Sync]:
    """Weakest first."""
    yield Sync()
    if sync.pending is not None and sync.scope is not Scope.THREAD:
        yield replace(sync, pending=None, wait_reason="")
    for scope in (Scope.THREAD, Scope.WARP):
        if scope.value < sync.scope.value:
            yield replace(sync, scope=scope, barrier_reason="" if scope is Scope.THREAD else sync.barrier_reason)


def _needless_commits(kernel: Plan, paths: _Paths, placement: _Placement) -> frozenset[Path]:
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


def _insert(kernel: Plan, placement: _Placement, needless: frozenset[Path]) -> Plan:
    kept = tuple(op for at, op in enumerate(kernel.body) if (at,) not in needless)
    moved = {_without(path, needless): sync for path, sync in placement.items()}
    return replace(kernel, body=_with_syncs(kept, (), moved))


def _without(path: Path, removed: frozenset[Path]) -> Path:
    """The path of an operation once operations of the kernel's body are gone."""
    return (path[0] - sum(other[0] < path[0] for other in removed), *path[1:])


def _with_syncs(ops: tuple[PlanOp, ...], prefix: Path, placement: _Placement) -> tuple[PlanOp, ...]:
    out: list[PlanOp] = []
    for at, op in enumerate(ops):
        path = (*prefix, at)
        sync = placement.get(path, Sync())
        if sync.pending is not None:
            out.append(Wait(pending=sync.pending, reason=sync.wait_reason))
        if sync.scope is not Scope.THREAD:
            out.append(Barrier(scope=sync.scope, reason=sync.barrier_reason))
        out.append(_descend(op, path, placement))
    return tuple(out)


def _descend(op: PlanOp, path: Path, placement: _Placement) -> PlanOp:
    match op:
        case plan.ChunkLoop() | plan.RangeLoop():
            return replace(op, body=_with_syncs(op.body, path, placement))
        case plan.Conditional():
            then = _with_syncs(op.then, (*path, 0), placement)
            orelse = _with_syncs(op.orelse, (*path, 1), placement)
            return replace(op, then=then, orelse=orelse)
        case _:
            return op
