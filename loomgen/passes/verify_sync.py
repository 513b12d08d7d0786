"""Verifier of a finished plan's synchronisation: every way through it is replayed with one vector clock a thread.

Holds after `synchronise`: no two threads touch a word of shared memory, one of them writing, without a barrier that
both meet in between; an asynchronous copy's words are not touched before its issuer has waited for its group; every
word read was written, as the tile and ring slot that the reader takes it for. An element of a tensor that is updated
in place is read and stored by one thread, or with a barrier in between.

The replay knows threads, words and what the operations Wait, Commit and Barrier do; it takes no conflict, scope, path
or placement from the pass that it checks. It is complete without listing paths: the states in which the arms of a
branch end go on together, as one where nothing tells them apart (`sync_state`), so that every combination of arms is
followed. A loop between run-time bounds ends after no iteration, one or two, each time that it is met: a third one
differs from the second by nothing but accesses that are further apart. Loops over chunks, which all run over the same
sequence, take every number of chunks up to two rounds of the deepest ring.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Leaf, Plan, PlanOp, RegisterLayout, SharedBuffer, SharedLayout, Team
from loomgen.ir.tile import Access as TensorAccess
from loomgen.ir.tile import Coord, TensorRead
from loomgen.ir.walk import nodes
from loomgen.passes.effects import Access, accesses
from loomgen.passes.footprints import Footprint, layout_letters
from loomgen.passes.operands import evaluated
from loomgen.passes.role_arms import arms, as_plan, handed_over
from loomgen.passes.sync_state import NOBODY, Flags, Place, State, merged
from loomgen.passes.trace import Path, chunk_counts, range_trips
from loomgen.passes.words import cell_bytes

_USES = 1 << 20
"""More iterations than are replayed: a tile's tag is its number times this plus the iteration that it belongs to."""


def verify_sync(kernel: Plan, layout: SharedLayout, pass_name: str) -> None:
    """Raises InternalError naming the pass, the two operations and the word. Roles: each arm by itself; what they hand
    over is the business of `verify_roles`.
    """
    for arm in arms(kernel):
        verify_sync(as_plan(arm), layout, pass_name)
    if arms(kernel):
        return
    places = _Places(kernel=kernel, layout=layout)
    for n_chunks in chunk_counts(kernel):
        replay = _Replay(places=places, pass_name=pass_name, n_chunks=n_chunks)
        replay.block(kernel.body, (), [State.initial(kernel.team.threads, layout)], 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _At:
    """An operation's place in the plan, and the turn of the rings there."""

    path: Path
    turn: int


@dataclass(slots=True, kw_only=True)
class _Places:
    """The accesses of each operation, computed once for all its executions."""

    kernel: Plan
    layout: SharedLayout
    by_path: dict[Path, tuple[Access, ...]] = field(default_factory=dict)
    by_slot: dict[tuple[Path, int, int], Place] = field(default_factory=dict)

    @property
    def numbers(self) -> dict[SharedBuffer, int]:
        return {buffer: number for number, (buffer, _) in enumerate(self.layout.offsets)}

    def of(self, op: Leaf, at: _At) -> list[Place]:
        if at.path not in self.by_path:
            handed = handed_over(self.kernel)
            found = accesses(op, self.kernel.team)
            self.by_path[at.path] = tuple(access for access in found if access.buffer not in handed)
        return [self._at_slot(at, number, access) for number, access in enumerate(self.by_path[at.path])]

    def _at_slot(self, at: _At, number: int, access: Access) -> Place:
        slot = (at.turn + access.ahead) % access.buffer.slots
        key = (at.path, number, slot)
        if key not in self.by_slot:
            self.by_slot[key] = Place.of(access, slot, self.layout)
        return self.by_slot[key]


def _has_element(layout: RegisterLayout, team: Team) -> Footprint:
    """Which thread has each element, -1 where several have it: [rows, cols]."""
    letters = layout_letters(layout, team)
    rows, cols = letters[layout.rows], letters[layout.cols]
    thread, row, col = np.broadcast_arrays(np.arange(team.threads)[:, None, None], rows[:, :, None], cols[:, None, :])
    exists = (row >= 0) & (col >= 0)
    holders = np.zeros((layout.rows.extent, layout.cols.extent), dtype=np.int64)
    found = np.full_like(holders, -1)
    np.add.at(holders, (row[exists], col[exists]), 1)
    found[row[exists], col[exists]] = thread[exists]
    found[holders != 1] = -1
    return found


def _dealing(op: Leaf, coords: tuple[Coord, ...], team: Team) -> object:
    """Equal where a tensor's elements at the coordinates are dealt, one by one, to the same threads; else unique."""
    match op:
        case plan.LoadStrip() | plan.MapFragment():
            layout = op.dst.layout
        case plan.StoreDirect():
            layout = op.src.layout
        case _:
            return object()
    holders = _has_element(layout, team)
    if (holders < 0).any():
        return object()
    return coords, layout.rows, layout.cols, holders.tobytes()


@dataclass(slots=True, kw_only=True)
class _Replay:
    """The plan, operation by operation, on all states that are possible there."""

    places: _Places
    pass_name: str
    n_chunks: int
    dealings: dict[tuple[Path, tuple[Coord, ...]], object] = field(default_factory=dict)

    def block(self, ops: tuple[PlanOp, ...], prefix: Path, states: list[State], turn: int) -> list[State]:
        for at, op in enumerate(ops):
            states = self._operation(op, _At(path=(*prefix, at), turn=turn), states)
        return states

    def _operation(self, op: PlanOp, at: _At, states: list[State]) -> list[State]:
        match op:
            case plan.ChunkLoop():
                for turn in range(self.n_chunks):
                    states = self.block(op.body, at.path, states, turn)
                return states
            case plan.RangeLoop():
                return self._range_loop(op, at, states)
            case plan.Conditional():
                then = self.block(op.then, (*at.path, 0), [state.copy() for state in states], at.turn)
                orelse = self.block(op.orelse, (*at.path, 1), states, at.turn)
                return merged((*then, *orelse))
            case plan.Preload():
                for turn in range(op.count):
                    self._copies(op.copies, at.path, turn, states, exists=turn < self.n_chunks)
                    for state in states:
                        state.commits += 1
            case plan.Prefetch():
                self._copies(op.copies, at.path, at.turn, states, exists=at.turn + op.ahead < self.n_chunks)
            case plan.Roles():
                raise InternalError(self.pass_name, "a role's arm is replayed by itself")
            case _:
                for state in states:
                    self._leaf(op, at, state)
        return states

    def _range_loop(self, op: plan.RangeLoop, at: _At, states: list[State]) -> list[State]:
        fewest, most = range_trips(op)
        ended = [state.copy() for state in states] if fewest == 0 else []
        for n_done in range(1, min(most, 2) + 1):
            states = self.block(op.body, at.path, states, at.turn)
            ended += [state.copy() for state in states] if n_done >= min(fewest, 2) else []
        return merged(ended)

    def _copies(
        self, copies: tuple[plan.CopyIn, ...], prefix: Path, turn: int, states: list[State], *, exists: bool
    ) -> None:
        for number, copy in enumerate(copies if exists else ()):
            for state in states:
                self._leaf(copy, _At(path=(*prefix, number), turn=turn), state)

    def _leaf(self, op: Leaf, at: _At, state: State) -> None:
        match op:
            case plan.Arrive() | plan.RingWait() | plan.RingFill() | plan.RingRelease():
                pass
            case plan.MmaWait() | plan.BoxWait() | plan.ProxyFence():
                pass
            case plan.Commit():
                state.commits += 1
            case plan.Wait(pending=pending):
                state.wait(pending)
            case plan.Barrier(scope=scope):
                state.barrier(scope)
            case _:
                for place in self.places.of(op, at):
                    self._access(place, self._tag(place.access, at.turn), op, state)
                self._use_tensors(op, at.path, state)

    # ------------------------------------------------------------------ shared memory

    def _tag(self, access: Access, turn: int) -> int:
        use = turn + access.ahead if access.buffer.slots > 1 else 0
        return self.places.numbers[access.buffer] * _USES + use

    def _access(self, place: Place, tag: int, op: Leaf, state: State) -> None:
        is_landed = ~state.is_pending[place.words]
        self._require(is_landed, place, op, "touches a word before the copy into it was waited for")
        is_written = state.writer[place.words] != NOBODY
        after_writer = state.after_writer(place)
        if not place.access.is_write:
            self._require(is_written, place, op, "reads a word that nothing wrote")
            holds = state.tags[place.words] == tag
            self._require(holds, place, op, "reads a word that holds another tile or iteration")
            self._require(after_writer, place, op, "reads a word, unordered, that another thread wrote")
            state.record_read(place)
            return
        self._require(~is_written | after_writer, place, op, "writes a word, unordered, that another thread wrote")
        after_readers = state.after_readers(place)
        self._require(after_readers, place, op, "writes a word, unordered, that another thread read")
        self._require(place.is_once, place, op, "writes a word in two threads at once")
        if place.access.is_async:
            state.record_copy(place, tag)
        else:
            state.record_write(place, tag)

    # ------------------------------------------------------------------ tensors updated in place

    def _use_tensors(self, op: Leaf, path: Path, state: State) -> None:
        for root in evaluated(op):
            for node in nodes(root):
                if isinstance(node, TensorRead) and node.tensor.access is TensorAccess.INOUT:
                    self._use(op, node.tensor.name, node.coords, path, state, is_store=False)
        match op:
            case plan.CopyOut() | plan.StoreDirect() | plan.StoreScalars() if op.tensor.access is TensorAccess.INOUT:
                self._use(op, op.tensor.name, op.coords, path, state, is_store=True)
            case _:
                pass

    def _use(
        self, op: Leaf, tensor: str, coords: tuple[Coord, ...], path: Path, state: State, *, is_store: bool
    ) -> None:
        """Where a tensor is read here and stored there, one is over for every thread, or each element one thread's."""
        if (path, coords) not in self.dealings:
            self.dealings[path, coords] = _dealing(op, coords, self.places.kernel.team)
        where = self.dealings[path, coords]
        for earlier in state.uses:
            is_apart = earlier.tensor != tensor or earlier.is_store == is_store or earlier.where == where
            if not is_apart and not state.knows(earlier):
                verb, others = ("writes", "read") if is_store else ("reads", "write")
                text = f"{_label(op)}: {verb} {tensor}, unordered, which other threads {others}"
                raise InternalError(self.pass_name, text)
        state.use(tensor, where, is_store=is_store)

    # ------------------------------------------------------------------ faults

    def _require(self, holds: Flags, place: Place, op: Leaf, fault: str) -> None:
        if holds.all():
            return
        at = int(np.argmin(holds))
        thread, byte = int(place.threads[at]), int(place.words[at]) * cell_bytes(self.places.layout)
        name = place.access.buffer.name
        raise InternalError(self.pass_name, f"{_label(op)}: thread {thread} {fault} ({name}, byte {byte})")


def _label(op: Leaf) -> str:
    return f"{type(op).__name__} {getattr(op, 'text', '')!r}"
