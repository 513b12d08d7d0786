"""Plan -> layout of shared memory by liveness: buffers that are never in use together may share bytes.

Before: buffers without addresses. After: each buffer that an operation touches has an aligned offset; two that are live
together do not overlap.

A buffer is live from the first to the last operation of the kernel's body that touches it; what a loop touches is live
throughout the loop, and what roles touch as long as any role runs. Reuse is safe because the synchronisation pass sees
overlapping bytes as conflicting accesses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from loomgen.ir.plan import Leaf, Plan, Ring, RingEnd, RingWait, Roles, SharedBuffer, SharedLayout, Team
from loomgen.passes.effects import accesses
from loomgen.passes.trace import leaves

ALIGNMENT_BYTES = 128
"""All 32 banks once: swizzles then spread rows over banks as computed."""
PANEL_ALIGNMENT_BYTES = 1024
"""Eight rows of a panel: the hardware swizzles by the bits of the address."""
RING_BARRIER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Live:
    buffer: SharedBuffer
    first: int
    last: int
    by_hardware: bool

    def overlaps(self, other: _Live) -> bool:
        return self.first <= other.last and other.first <= self.last

    @property
    def alignment_bytes(self) -> int:
        return PANEL_ALIGNMENT_BYTES if self.by_hardware else ALIGNMENT_BYTES


def allocate(kernel: Plan) -> SharedLayout:
    placed: list[tuple[_Live, int]] = []
    for live in sorted(_lifetimes(kernel), key=lambda live: (live.first, -live.buffer.n_bytes, live.buffer.name)):
        neighbours = sorted((at, other.buffer.n_bytes) for other, at in placed if other.overlaps(live))
        placed.append((live, _first_gap(neighbours, live)))
    n_bytes = max((at + _aligned(live.buffer.n_bytes) for live, at in placed), default=0)
    barriers: list[tuple[Ring, int]] = []
    for ring in _rings(kernel):
        barriers.append((ring, n_bytes))
        n_bytes += _aligned(len(RingEnd) * ring.slots * RING_BARRIER_BYTES)
    offsets = tuple((live.buffer, at) for live, at in placed)
    return SharedLayout(offsets=offsets, n_bytes=n_bytes, barriers=tuple(barriers))


def _rings(kernel: Plan) -> tuple[Ring, ...]:
    waits = (leaf for op in kernel.body for leaf in leaves(op) if isinstance(leaf, RingWait))
    return tuple(dict.fromkeys(wait.ring for wait in waits))


def _lifetimes(kernel: Plan) -> list[_Live]:
    found: dict[SharedBuffer, _Live] = {}
    for at, leaf, team in _operations(kernel):
        for access in accesses(leaf, team):
            new = _Live(buffer=access.buffer, first=at, last=at, by_hardware=access.by_hardware)
            old = found.get(access.buffer, new)
            found[access.buffer] = replace(old, last=at, by_hardware=old.by_hardware or new.by_hardware)
    return list(found.values())


def _operations(kernel: Plan) -> Iterator[tuple[int, Leaf, Team]]:
    """Every operation with its place in the kernel's body and the team that carries it out."""
    for at, op in enumerate(kernel.body):
        parts = [(arm.team, arm.body) for arm in op.arms] if isinstance(op, Roles) else [(kernel.team, (op,))]
        for team, body in parts:
            yield from ((at, leaf, team) for inner in body for leaf in leaves(inner))


def _first_gap(neighbours: list[tuple[int, int]], live: _Live) -> int:
    at = 0
    for start, size in neighbours:
        if at + live.buffer.n_bytes <= start:
            return at
        at = max(at, _aligned(start + size, live.alignment_bytes))
    return at


def _aligned(n_bytes: int, alignment: int = ALIGNMENT_BYTES) -> int:
    return -(-n_bytes // alignment) * alignment
