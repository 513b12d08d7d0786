"""What the threads of a block know of each other's accesses at one point of a plan: vector clocks over words.

As in FastTrack, a word remembers its last writer's epoch and each thread's last read. Reads that are ordered before a
write are kept: clocks only grow, so they cannot cause a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from loomgen.ir.plan import WARP_THREADS, Scope, SharedLayout
from loomgen.passes.effects import Access
from loomgen.passes.words import Words, cell_bytes, physical_words

NOBODY = -1
_MIXED = -1
"""The tag of a word that holds different tiles by the way by which a point is reached."""
_NOW = 1 << 20
"""A thread's epoch where states are compared; what is later stays later."""

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """One access at one ring slot: who touches which word; ``is_once``: no other thread has the same word."""

    access: Access
    threads: Words
    words: Words
    is_once: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, access: Access, slot: int, layout: SharedLayout) -> Place:
        threads, words = physical_words(access, slot, layout)
        return cls(access=access, threads=threads, words=words, is_once=np.bincount(words)[words] == 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Asynchronous copies of one operation that no wait has covered; ``group`` counts the commits before them."""

    group: int
    place: Place
    tag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorUse:
    """An access to a tensor that is updated in place: which thread has which element, and each thread's epoch."""

    tensor: str
    where: object
    is_store: bool
    epochs: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class State:
    """``clocks[t, u]``: the latest epoch of thread u that thread t knows to be over, its own epoch where t = u.
    Arrays over words: the last writer, its epoch and the tile's tag; each thread's last read."""

    clocks: Ints
    writer: Ints
    written_at: Ints
    tags: Ints
    read_at: Ints
    is_pending: Flags
    pending: tuple[Pending, ...] = ()
    commits: int = 0
    uses: tuple[TensorUse, ...] = field(default=())

    @classmethod
    def initial(cls, n_threads: int, layout: SharedLayout) -> State:
        n_words = -(-layout.n_bytes // cell_bytes(layout))
        return cls(
            clocks=np.eye(n_threads, dtype=np.int32),
            writer=np.full(n_words, NOBODY, dtype=np.int32),
            written_at=np.zeros(n_words, dtype=np.int32),
            tags=np.zeros(n_words, dtype=np.int32),
            read_at=np.zeros((n_words, n_threads), dtype=np.int32),
            is_pending=np.zeros(n_words, dtype=np.bool_),
        )

    def copy(self) -> State:
        return replace(
            self,
            clocks=self.clocks.copy(),
            writer=self.writer.copy(),
            written_at=self.written_at.copy(),
            tags=self.tags.copy(),
            read_at=self.read_at.copy(),
            is_pending=self.is_pending.copy(),
        )

    # ------------------------------------------------------------------ synchronisation

    def barrier(self, scope: Scope) -> None:
        """The threads that meet know what each of them knows; what follows is a new epoch of theirs."""
        n_threads = len(self.clocks)
        size = {Scope.THREAD: 1, Scope.WARP: WARP_THREADS, Scope.BLOCK: n_threads}[scope]
        groups = self.clocks.reshape(n_threads // size, size, n_threads)
        self.clocks = np.repeat(groups.max(axis=1), size, axis=0)
        self.clocks[np.diag_indices(n_threads)] += 1

    def wait(self, pending: int) -> None:
        """Groups older than the youngest ``pending`` land: from now on they are writes of the threads that copied."""
        done = [copy for copy in self.pending if copy.group < self.commits - pending]
        self.pending = tuple(copy for copy in self.pending if copy.group >= self.commits - pending)
        for copy in done:
            self.is_pending[copy.place.words] = False
            self.record_write(copy.place, copy.tag)

    # ------------------------------------------------------------------ accesses

    def record_copy(self, place: Place, tag: int) -> None:
        self.is_pending[place.words] = True
        self.pending = (*self.pending, Pending(group=self.commits, place=place, tag=tag))

    def record_write(self, place: Place, tag: int) -> None:
        self.writer[place.words] = place.threads
        self.written_at[place.words] = self.clocks[place.threads, place.threads]
        self.tags[place.words] = tag

    def record_read(self, place: Place) -> None:
        self.read_at[place.words, place.threads] = self.clocks[place.threads, place.threads]

    def after_writer(self, place: Place) -> Flags:
        """Whether each thread knows the last write of its word to be over."""
        ordered: Flags = self.clocks[place.threads, self.writer[place.words]] >= self.written_at[place.words]
        return ordered

    def after_readers(self, place: Place) -> Flags:
        """Whether each thread knows every thread's last read of its word to be over."""
        ordered: Flags = np.logical_and.reduce(self.read_at[place.words] <= self.clocks[place.threads], axis=1)
        return ordered

    def use(self, tensor: str, where: object, *, is_store: bool) -> None:
        epochs = tuple(int(epoch) for epoch in self.clocks.diagonal())
        self.uses = (*self.uses, TensorUse(tensor=tensor, where=where, is_store=is_store, epochs=epochs))

    def knows(self, use: TensorUse) -> bool:
        """Every thread knows that use to be over for every thread."""
        return bool((np.asarray(use.epochs, dtype=np.int32) <= self.clocks).all())

    # ------------------------------------------------------------------ where ways meet

    def normal(self) -> State:
        """The same knowledge with every thread at the same epoch, without what all threads know to be over."""
        shift = _NOW - self.clocks.diagonal()
        known = self.clocks.min(axis=0)
        is_written = self.writer != NOBODY
        writer = np.where(is_written, self.writer, 0)
        is_over = self.written_at <= known[writer]
        uses = (use for use in self.uses if not self.knows(use))
        return replace(
            self,
            clocks=self.clocks + shift,
            writer=np.where(is_written & is_over, 0, self.writer),
            written_at=np.where(is_over, 0, self.written_at + shift[writer]),
            read_at=np.where(self.read_at <= known, 0, self.read_at + shift),
            pending=tuple(replace(copy, group=copy.group - self.commits) for copy in self.pending),
            commits=0,
            uses=tuple(replace(use, epochs=tuple((np.asarray(use.epochs) + shift).tolist())) for use in uses),
        )

    def joined(self, other: State) -> State | None:
        """What fails in one of two normal states, and nothing else, fails in it; None where there is no such state."""
        if self.pending != other.pending or not np.array_equal(self.clocks, other.clocks):
            return None
        is_own, is_others = self.written_at > 0, other.written_at > 0
        same = (self.writer == other.writer) & (self.written_at == other.written_at)
        if (is_own & is_others & ~same).any():
            return None
        unwritten = (self.writer == NOBODY) | (other.writer == NOBODY)
        return replace(
            self,
            writer=np.where(unwritten & ~is_own & ~is_others, NOBODY, np.where(is_others, other.writer, self.writer)),
            written_at=np.maximum(self.written_at, other.written_at),
            tags=np.where((self.tags == other.tags) & ~unwritten, self.tags, _MIXED),
            read_at=np.maximum(self.read_at, other.read_at),
            uses=tuple(dict.fromkeys((*self.uses, *other.uses))),
        )


def merged(states: Iterable[State]) -> list[State]:
    """As few states as tell what any of the given ones does."""
    found: list[State] = []
    for state in states:
        rest = state.normal()
        for at, known in enumerate(found):
            both = known.joined(rest)
            if both is not None:
                found[at] = both
                break
        else:
            found.append(rest)
    return found
