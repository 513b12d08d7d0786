"""Verifier of a finished plan's synchronisation: every path is replayed with one vector clock a thread.

Holds after `synchronise` for every path (`trace.traces`): no two threads touch a word of shared memory, one of them
writing, without a barrier that both meet in between; an asynchronous copy's words are not touched before its issuer
has waited for its group; every word read was written, as the tile and ring slot that the reader takes it for. A tensor
that is updated in place is stored by the thread that read the element, or after a barrier.

The replay knows threads, words and what the operations Wait, Commit and Barrier do; it takes no conflict, scope or
placement from the pass that it checks. As in FastTrack, a word remembers its last writer's epoch and each thread's
last read. Reads that are ordered before a write are kept: clocks only grow, so they cannot cause a false alarm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import WARP_THREADS, Leaf, Plan, Scope, SharedBuffer, SharedLayout
from loomgen.ir.tile import Access as TensorAccess
from loomgen.ir.tile import TensorRead
from loomgen.ir.walk import nodes
from loomgen.passes.effects import Access, accesses
from loomgen.passes.operands import evaluated
from loomgen.passes.role_arms import arms, as_plan, handed_over
from loomgen.passes.trace import Event, Path, Reached, traces
from loomgen.passes.words import Words, cell_bytes, physical_words

_NOBODY = -1
_USES = 1 << 20
"""More iterations than a trace has: a tile's tag is its number times this plus the iteration that it belongs to."""


def verify_sync(kernel: Plan, layout: SharedLayout, pass_name: str) -> None:
    """Raises InternalError naming the pass, the two operations and the word. Roles: each arm by itself; what they hand
    over is `verify_roles`' matter.
    """
    for arm in arms(kernel):
        verify_sync(as_plan(arm), layout, pass_name)
    if arms(kernel):
        return
    places = _Places(kernel=kernel, layout=layout, handed_over=handed_over(kernel))
    for events in traces(kernel):
        _Replay.of(kernel, layout, places, pass_name).run(events)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One access at one ring slot: who touches which word; ``is_once``: no other thread has the same word."""

    access: Access
    threads: Words
    words: Words
    is_once: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, access: Access, slot: int, layout: SharedLayout) -> _Place:
        threads, words = physical_words(access, slot, layout)
        return cls(access=access, threads=threads, words=words, is_once=np.bincount(words)[words] == 1)


@dataclass(slots=True, kw_only=True)
class _Places:
    """The accesses of each operation, computed once for all its executions."""

    kernel: Plan
    layout: SharedLayout
    handed_over: frozenset[SharedBuffer]
    by_path: dict[Path, tuple[Access, ...]] = field(default_factory=dict)
    by_slot: dict[tuple[Path, int, int], _Place] = field(default_factory=dict)

    def of(self, op: Leaf, event: Event) -> list[_Place]:
        if event.path not in self.by_path:
            found = accesses(op, self.kernel.team)
            self.by_path[event.path] = tuple(access for access in found if access.buffer not in self.handed_over)
        return [self._at_slot(event, number, access) for number, access in enumerate(self.by_path[event.path])]

    def _at_slot(self, event: Event, number: int, access: Access) -> _Place:
        slot = (event.turn + access.ahead) % access.buffer.slots
        key = (event.path, number, slot)
        if key not in self.by_slot:
            self.by_slot[key] = _Place.of(access, slot, self.layout)
        return self.by_slot[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """Asynchronous copies of one operation that no wait has covered; ``group`` counts the commits before them."""

    group: int
    place: _Place
    tag: int


_Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TensorRead:
    """A read of a tensor that is updated in place: how its elements are dealt to threads, and each thread's epoch."""

    read: TensorRead
    dealing: object
    epochs: _Ints


def _dealing(op: Leaf) -> object:
    """What decides which thread has which element; None where that is left open."""
    match op:
        case plan.LoadStrip() | plan.MapFragment() | plan.MapRows():
            return op.dst.layout
        case plan.StoreDirect():
            return op.src.layout
        case plan.StoreScalars(src=plan.RowTile(layout=layout)):
            return layout
        case _:
            return None


@dataclass(slots=True, kw_only=True)
class _Replay:
    """The state of one path. ``clocks[t, u]``: the latest epoch of thread u that thread t knows to be over, its own
    epoch where t = u. Arrays over words: the last writer, its epoch and the tile's tag; each thread's last read."""

    places: _Places
    pass_name: str
    clocks: _Ints
    writer: _Ints
    written_at: _Ints
    tags: _Ints
    read_at: _Ints
    is_pending: npt.NDArray[np.bool_]
    is_unfenced: npt.NDArray[np.bool_]
    is_leaving: npt.NDArray[np.bool_]
    pending: list[_Pending] = field(default_factory=list)
    leaving: list[_Place] = field(default_factory=list)
    commits: int = 0
    buffers: dict[SharedBuffer, int] = field(default_factory=dict)
    tensor_reads: list[_TensorRead] = field(default_factory=list)

    @classmethod
    def of(cls, kernel: Plan, layout: SharedLayout, places: _Places, pass_name: str) -> _Replay:
        n_threads, n_words = kernel.team.threads, -(-layout.n_bytes // cell_bytes(layout))
        return cls(
            places=places,
            pass_name=pass_name,
            clocks=np.eye(n_threads, dtype=np.int32),
            writer=np.full(n_words, _NOBODY, dtype=np.int32),
            written_at=np.zeros(n_words, dtype=np.int32),
            tags=np.zeros(n_words, dtype=np.int32),
            read_at=np.zeros((n_words, n_threads), dtype=np.int32),
            is_pending=np.zeros(n_words, dtype=np.bool_),
            is_unfenced=np.zeros(n_words, dtype=np.bool_),
            is_leaving=np.zeros(n_words, dtype=np.bool_),
            buffers={buffer: number for number, (buffer, _) in enumerate(layout.offsets)},
        )

    def run(self, events: Sequence[Event]) -> None:
        for event in events:
            match event.op:
                case Reached() | plan.Arrive():
                    continue
                case plan.Commit():
                    self.commits += 1
                case plan.Wait(pending=pending):
                    self._wait(pending)
                case plan.Barrier(scope=scope):
                    self._barrier(scope)
                case plan.ProxyFence():
                    self.is_unfenced[:] = False
                case plan.BoxWait(pending=pending):
                    self._await_boxes(pending)
                case op:
                    self._execute(op, event)
        if self.leaving:
            raise InternalError(self.pass_name, "boxes still read shared memory at the end")

    # ------------------------------------------------------------------ synchronisation

    def _barrier(self, scope: Scope) -> None:
        """The threads that meet know what each of them knows; what follows is a new epoch of theirs."""
        n_threads = len(self.clocks)
        size = {Scope.THREAD: 1, Scope.WARP: WARP_THREADS, Scope.BLOCK: n_threads}[scope]
        groups = self.clocks.reshape(n_threads // size, size, n_threads)
        self.clocks = np.repeat(groups.max(axis=1), size, axis=0)
        self.clocks[np.diag_indices(n_threads)] += 1

    def _wait(self, pending: int) -> None:
        """Groups older than the youngest ``pending`` land: from now on they are writes of the threads that copied."""
        done = [copy for copy in self.pending if copy.group < self.commits - pending]
        self.pending = [copy for copy in self.pending if copy.group >= self.commits - pending]
        for copy in done:
            self.is_pending[copy.place.words] = False
            self._record_write(copy.place, copy.tag)

    def _await_boxes(self, pending: int) -> None:
        done, self.leaving = self.leaving[: len(self.leaving) - pending], self.leaving[len(self.leaving) - pending :]
        for place in done:
            self.is_leaving[place.words] = False
            self.read_at[place.words, place.threads] = self.clocks[place.threads, place.threads]

    # ------------------------------------------------------------------ memory

    def _execute(self, op: Leaf, event: Event) -> None:
        for place in self.places.of(op, event):
            tag = self._tag(place.access, event)
            self._not_pending(place, op)
            if not place.access.is_write:
                self._read(place, tag, op)
                self._read_by_hardware(place, op)
                continue
            self._write(place, op)
            self.is_unfenced[place.words] = not place.access.by_hardware
            if place.access.is_async:
                self.is_pending[place.words] = True
                self.pending.append(_Pending(group=self.commits, place=place, tag=tag))
            else:
                self._record_write(place, tag)
        self._update_tensors(op)

    def _tag(self, access: Access, event: Event) -> int:
        use = event.turn + access.ahead if access.buffer.slots > 1 else 0
        return self.buffers[access.buffer] * _USES + use

    def _record_write(self, place: _Place, tag: int) -> None:
        self.writer[place.words] = place.threads
        self.written_at[place.words] = self.clocks[place.threads, place.threads]
        self.tags[place.words] = tag

    def _not_pending(self, place: _Place, op: Leaf) -> None:
        self._require(~self.is_pending[place.words], place, op, "touches a word before the copy into it was waited for")

    def _read(self, place: _Place, tag: int, op: Leaf) -> None:
        threads, words = place.threads, place.words
        self._require(self.writer[words] != _NOBODY, place, op, "reads a word that nothing wrote")
        self._require(self.tags[words] == tag, place, op, "reads a word that holds another tile or iteration")
        self._require(
            self._after_writer(threads, words), place, op, "reads a word, unordered, that another thread wrote"
        )
        self.read_at[words, threads] = self.clocks[threads, threads]

    def _read_by_hardware(self, place: _Place, op: Leaf) -> None:
        if not place.access.by_hardware:
            return
        self._require(~self.is_unfenced[place.words], place, op, "has the hardware read a word that was not fenced")
        if isinstance(op, plan.BoxOut):
            self.is_leaving[place.words] = True
            self.leaving.append(place)

    def _write(self, place: _Place, op: Leaf) -> None:
        threads, words = place.threads, place.words
        self._require(~self.is_leaving[words], place, op, "writes a word that a box still reads")
        ordered = np.logical_or(self.writer[words] == _NOBODY, self._after_writer(threads, words))
        self._require(ordered, place, op, "writes a word, unordered, that another thread wrote")
        self._require(
            self._after_readers(threads, words), place, op, "writes a word, unordered, that another thread read"
        )
        self._require(place.is_once, place, op, "writes a word in two threads at once")

    def _after_writer(self, threads: Words, words: Words) -> npt.NDArray[np.bool_]:
        ordered: npt.NDArray[np.bool_] = self.clocks[threads, self.writer[words]] >= self.written_at[words]
        return ordered

    def _after_readers(self, threads: Words, words: Words) -> npt.NDArray[np.bool_]:
        """Whether each thread knows every thread's last read of its word to be over."""
        ordered: npt.NDArray[np.bool_] = np.logical_and.reduce(self.read_at[words] <= self.clocks[threads], axis=1)
        return ordered

    # ------------------------------------------------------------------ tensors updated in place

    def _update_tensors(self, op: Leaf) -> None:
        if isinstance(op, plan.CopyOut | plan.StoreDirect | plan.StoreScalars):
            self._store(op)
        for root in evaluated(op):
            for node in nodes(root):
                if isinstance(node, TensorRead) and node.tensor.access is TensorAccess.INOUT:
                    read = _TensorRead(read=node, dealing=_dealing(op), epochs=self.clocks.diagonal().copy())
                    self.tensor_reads.append(read)

    def _store(self, op: plan.CopyOut | plan.StoreDirect | plan.StoreScalars) -> None:
        """Every read of the tensor is over for every thread, or was the storing thread's own."""
        for earlier in self.tensor_reads:
            is_own = (
                earlier.read.coords == op.coords and earlier.dealing is not None and earlier.dealing == _dealing(op)
            )
            if earlier.read.tensor.name != op.tensor.name or is_own:
                continue
            if not (earlier.epochs <= self.clocks).all():
                text = f"{type(op).__name__} {op.text!r}: writes {op.tensor.name}, unordered, which other threads read"
                raise InternalError(self.pass_name, text)

    # ------------------------------------------------------------------ faults

    def _require(self, holds: npt.NDArray[np.bool_], place: _Place, op: Leaf, fault: str) -> None:
        if holds.all():
            return
        at = int(np.argmin(holds))
        thread, byte = int(place.threads[at]), int(place.words[at]) * cell_bytes(self.places.layout)
        name = place.access.buffer.name
        text = f"{type(op).__name__} {getattr(op, 'text', '')!r}: thread {thread} {fault} ({name}, byte {byte})"
        raise InternalError(self.pass_name, text)
