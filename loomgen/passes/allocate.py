"""Plan -> layout of shared memory by liveness: buffers that are never in use together may share bytes.

Before: buffers without addresses. After: each buffer that an operation touches has an aligned offset; two that are live
together do not overlap.

A buffer is live from the first to the last operation of the kernel's body that touches it; what a loop touches is live
throughout the loop. Reuse is safe because the synchronisation pass sees overlapping bytes as conflicting accesses.
"""

from __future__ import annotations

from dataclasses import dataclass

from loomgen.ir.plan import Plan, SharedBuffer, SharedLayout
from loomgen.passes.effects import accesses
from loomgen.passes.trace import leaves

ALIGNMENT_BYTES = 128
"""All 32 banks once: swizzles then spread rows over banks as computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Live:
    buffer: SharedBuffer
    first: int
    last: int

    def overlaps(self, other: _Live) -> bool:
        return self.first <= other.last and other.first <= self.last


def allocate(kernel: Plan) -> SharedLayout:
    placed: list[tuple[_Live, int]] = []
    for live in sorted(_lifetimes(kernel), key=lambda live: (live.first, -live.buffer.n_bytes, live.buffer.name)):
        neighbours = sorted((at, other.buffer.n_bytes) for other, at in placed if other.overlaps(live))
        placed.append((live, _first_gap(neighbours, live.buffer.n_bytes)))
    n_bytes = max((at + _aligned(live.buffer.n_bytes) for live, at in placed), default=0)
    return SharedLayout(offsets=tuple((live.buffer, at) for live, at in placed), n_bytes=n_bytes)


def _lifetimes(kernel: Plan) -> list[_Live]:
    spans: dict[SharedBuffer, tuple[int, int]] = {}
    for at, op in enumerate(kernel.body):
        for leaf in leaves(op):
            for access in accesses(leaf, kernel.team):
                first, _ = spans.get(access.buffer, (at, at))
                spans[access.buffer] = (first, at)
    return [_Live(buffer=buffer, first=first, last=last) for buffer, (first, last) in spans.items()]


def _first_gap(neighbours: list[tuple[int, int]], n_bytes: int) -> int:
    at = 0
    for start, size in neighbours:
        if at + n_bytes <= start:
            return at
        at = max(at, _aligned(start + size))
    return at


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
