"""Which accesses to shared memory conflict, and how far apart the threads are that make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from loomgen.ir import plan
from loomgen.ir.plan import Plan, Scope, SharedLayout
from loomgen.passes.effects import Access, accesses
from loomgen.passes.role_arms import handed_over
from loomgen.passes.trace import Event, Path, Reached
from loomgen.passes.words import Words, physical_words

_NO_THREAD = 1 << 30

Place = tuple[Path, int, int]
"""An access of an operation at one slot: path, number of the access, slot."""


def common_blocks(a: Event, b: Event) -> tuple[Path, ...]:
    return tuple(block for block in a.blocks if block in b.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One access of one event, the ``number``-th of its operation."""

    at: int
    event: Event
    number: int
    access: Access

    @property
    def place(self) -> Place:
        slot = (self.event.turn + self.access.ahead) % self.access.buffer.slots
        return self.event.path, self.number, slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Two conflicting accesses, the earlier one first, and how far apart their threads are."""

    src: Touch
    dst: Touch
    scope: Scope

    @property
    def depth(self) -> int:
        """How many loops contain both."""
        return len(common_blocks(self.src.event, self.dst.event))


@dataclass(slots=True)
class Conflicts:
    """Those of one team; what it hands to another role, or gets from one, is ordered by its ring."""

    kernel: Plan
    layout: SharedLayout
    known: dict[Path, tuple[Access, ...]] = field(default_factory=dict)
    extents: dict[Place, _Extent] = field(default_factory=dict)
    scopes: dict[tuple[Place, Place], Scope | None] = field(default_factory=dict)

    def touches(self, at: int, event: Event) -> list[Touch]:
        if isinstance(event.op, Reached):
            return []
        if event.path not in self.known:
            handed = handed_over(self.kernel)
            found = accesses(event.op, self.kernel.team)
            self.known[event.path] = tuple(access for access in found if access.buffer not in handed)
        known = enumerate(self.known[event.path])
        return [Touch(at=at, event=event, number=number, access=access) for number, access in known]

    def edges(self, events: Sequence[Event]) -> list[Edge]:
        """All conflicting pairs of a path, by their later end."""
        touches: list[Touch] = []
        found: list[Edge] = []
        for at, event in enumerate(events):
            new = self.touches(at, event)
            for dst in new:
                found.extend(self._edges_to(dst, touches))
            touches.extend(new)
        return found

    def _edges_to(self, dst: Touch, earlier: list[Touch]) -> Iterator[Edge]:
        for src in earlier:
            scope = self.scope(src, dst)
            if scope is not None and (scope is not Scope.THREAD or src.access.is_async):
                yield Edge(src=src, dst=dst, scope=scope)

    def scope(self, src: Touch, dst: Touch) -> Scope | None:
        if not (src.access.is_write or dst.access.is_write):
            return None
        key = (src.place, dst.place)
        if key not in self.scopes:
            self.scopes[key] = _distance(self._extent(src), self._extent(dst))
        return self.scopes[key]

    def _extent(self, touch: Touch) -> _Extent:
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
