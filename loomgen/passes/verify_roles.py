"""Verifier of the rings between roles: the roles are run side by side with the barriers that the device would have.

Holds after `connect_roles` for every number of iterations up to two turns of the deepest ring: no role waits for ever;
a box is asked for only when all that the slot's readers do with its last tile is over, asynchronous products included;
a tile is read only when its bytes have come, and it is the tile of the reader's own iteration; nothing is under way
when a role ends.

It knows what the operations do to a barrier's phase and to a slot's contents, and takes nothing from the pass that it
checks. What could go wrong is made to happen: a role goes on as soon as it may while the others have done as little as
they can, once with each role first; bytes come, and products end, no earlier than somebody waits for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Leaf, Plan, Ring, RingEnd, RoleArm, SharedBuffer, WarpgroupMma
from loomgen.passes.operands import shared_refs
from loomgen.passes.role_arms import arms, as_plan
from loomgen.passes.trace import Event, Reached, leaves, ring_depth, trace
from loomgen.passes.verify_hardware import HardwareReplay


def verify_roles(kernel: Plan, pass_name: str) -> None:
    """Raises InternalError naming the pass, the role and the tile."""
    found = arms(kernel)
    if not found:
        return
    handed = frozenset(buffer for arm in found for ring in _rings(arm) for buffer in ring.buffers)
    for trips in range(2 * max(_depth(arm) for arm in found) + 2):
        for arm in found:
            replay = HardwareReplay(pass_name=pass_name, team=arm.team, handed_over=handed)
            replay.run(trace(as_plan(arm), trips))
        for first in range(len(found)):
            _Block(pass_name=pass_name, arms=(*found[first:], *found[:first])).run(trips)


def _depth(arm: RoleArm) -> int:
    return max((ring_depth(op) for op in arm.body), default=1)


@dataclass(slots=True)
class _Barrier:
    """``arrivals`` and bytes that are still to come in this phase; ``phase`` counts the phases that are over."""

    arrivals: int
    missing: int
    n_bytes: int = 0
    phase: int = 0

    def arrive(self, n: int) -> None:
        self.missing -= n
        self._turn()

    def come(self, n_bytes: int) -> None:
        self.n_bytes -= n_bytes
        self._turn()

    def _turn(self) -> None:
        if self.missing == 0 and self.n_bytes == 0:
            self.phase, self.missing = self.phase + 1, self.arrivals


@dataclass(slots=True)
class _Slot:
    """What a slot of a buffer holds: the iteration of its tile, None while it is free; the products that read it."""

    tile: int | None = None
    readers: int = 0
    is_coming: bool = False


@dataclass(slots=True, kw_only=True)
class _Block:
    pass_name: str
    arms: Sequence[RoleArm]
    barriers: dict[tuple[str, RingEnd, int], _Barrier] = field(default_factory=dict)
    slots: dict[tuple[str, int], _Slot] = field(default_factory=dict)
    coming: list[tuple[Ring, int, SharedBuffer]] = field(default_factory=list)

    def run(self, trips: int) -> None:
        """One step at a time, of the first role that can; boxes come only when no role can go on without them."""
        runners = {arm.name: self._role(arm, trips) for arm in self.arms}
        while runners:
            if not self._step(runners) and not self._box_comes():
                raise InternalError(self.pass_name, f"the roles {', '.join(runners)} wait for each other for ever")

    def _step(self, runners: dict[str, Iterator[bool]]) -> bool:
        """Whether some role has done something, or has come to its end."""
        for name, runner in runners.items():
            has_moved = next(runner, None)
            if has_moved is None:
                del runners[name]
            if has_moved is not False:
                return True
        return False

    def _box_comes(self) -> bool:
        if not self.coming:
            return False
        ring, use, buffer = self.coming.pop(0)
        slot = self._slot(buffer, use)
        slot.tile, slot.is_coming = use, False
        self._barrier(ring, RingEnd.FULL, use).come(buffer.slot_bytes)
        return True

    def _barrier(self, ring: Ring, end: RingEnd, use: int) -> _Barrier:
        arrivals = 1 if end is RingEnd.FULL else ring.releases
        key = (ring.name, end, use % ring.slots)
        return self.barriers.setdefault(key, _Barrier(arrivals=arrivals, missing=arrivals))

    def _slot(self, buffer: SharedBuffer, use: int) -> _Slot:
        return self.slots.setdefault((buffer.name, use % buffer.slots), _Slot())

    # ------------------------------------------------------------------ one role

    def _role(self, arm: RoleArm, trips: int) -> Iterator[bool]:
        """Yields after each operation, False while it waits."""
        rings = {buffer: ring for other in self.arms for ring in _rings(other) for buffer in ring.buffers}
        handed = frozenset(rings)
        under_way: list[tuple[Event, WarpgroupMma]] = []
        for event in trace(as_plan(arm), trips):
            match event.op:
                case Reached():
                    continue
                case plan.RingWait(ring=ring, end=end):
                    while not self._is_over(ring, end, event.iteration):
                        yield False
                case plan.RingFill(ring=ring):
                    barrier = self._barrier(ring, RingEnd.FULL, event.iteration)
                    barrier.n_bytes += ring.n_bytes
                    barrier.arrive(1)
                case plan.RingRelease(ring=ring):
                    self._release(ring, event.iteration, arm)
                case plan.MmaWait(pending=pending):
                    done, under_way = under_way[: len(under_way) - pending], under_way[len(under_way) - pending :]
                    self._end_reads(done, handed)
                case plan.BoxIn(dst=dst):
                    self._ask(dst.buffer, rings[dst.buffer], event.iteration, arm)
                case op:
                    self._touch(op, event, handed, arm)
                    if isinstance(op, WarpgroupMma):
                        under_way.append((event, op))
            yield True
        if under_way:
            raise InternalError(self.pass_name, f"role {arm.name} ends with products under way")

    def _release(self, ring: Ring, use: int, arm: RoleArm) -> None:
        """The slot's tiles are given back: nothing of the role may still read them, or read them later."""
        for buffer in ring.buffers:
            slot = self._slot(buffer, use)
            if slot.readers:
                raise InternalError(
                    self.pass_name, f"role {arm.name} releases {buffer.name}, which products still read"
                )
            slot.tile = None
        self._barrier(ring, RingEnd.EMPTY, use).arrive(ring.releases)

    def _is_over(self, ring: Ring, end: RingEnd, use: int) -> bool:
        """The phase that this use waits for: its own of a full barrier, the one before of an empty barrier."""
        wanted = use // ring.slots + (1 if end is RingEnd.FULL else 0)
        return self._barrier(ring, end, use).phase >= wanted

    def _ask(self, buffer: SharedBuffer, ring: Ring, use: int, arm: RoleArm) -> None:
        slot = self._slot(buffer, use)
        if slot.tile is not None or slot.is_coming:
            raise InternalError(self.pass_name, f"role {arm.name} fills a slot of {buffer.name} that is in use")
        full = self._barrier(ring, RingEnd.FULL, use)
        if full.n_bytes < buffer.slot_bytes:
            raise InternalError(self.pass_name, f"role {arm.name} fills {buffer.name} and has not said so")
        slot.is_coming = True
        self.coming.append((ring, use, buffer))

    def _touch(self, op: Leaf, event: Event, handed: frozenset[SharedBuffer], arm: RoleArm) -> None:
        for buffer in (ref.buffer for ref in shared_refs(op) if ref.buffer in handed):
            slot = self._slot(buffer, event.iteration)
            if slot.tile != event.iteration:
                text = f"role {arm.name} reads {buffer.name} of iteration {event.iteration} where it is not"
                raise InternalError(self.pass_name, text)
            slot.readers += isinstance(op, WarpgroupMma)

    def _end_reads(self, done: Sequence[tuple[Event, WarpgroupMma]], handed: frozenset[SharedBuffer]) -> None:
        for event, product in done:
            for buffer in (ref.buffer for ref in shared_refs(product) if ref.buffer in handed):
                self._slot(buffer, event.iteration).readers -= 1


def _rings(arm: RoleArm) -> Iterator[Ring]:
    for leaf in (leaf for op in arm.body for leaf in leaves(op)):
        if isinstance(leaf, plan.RingWait | plan.RingFill | plan.RingRelease):
            yield leaf.ring
