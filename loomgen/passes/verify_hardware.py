"""Verifier of what one role's arm shares with the copy and product hardware, but for its rings (`verify_roles`).

Holds after `synchronise` on a path: what threads write and the hardware then reads has been fenced, and then has been
made known by a barrier of the team; what a box still reads is not written before the thread that asked for it has
waited for it, and then has met the others; the sum of a product is not touched before its end; nothing is under way at
the end. Buffers count as a whole: whoever writes one, writes it for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import BoxOut, Leaf, Scope, SharedBuffer, WarpgroupMma
from loomgen.passes.effects import Access, accesses
from loomgen.passes.operands import operands
from loomgen.passes.trace import Event, Reached


class _State(IntEnum):
    """How far what was done to a buffer has become known."""

    DONE = 0  # written, or asked to be read
    SETTLED = 1  # fenced, or waited for, by whoever did it
    KNOWN = 2  # to the whole team


@dataclass(slots=True, kw_only=True)
class HardwareReplay:
    """One path of an arm; ``handed_over``: the buffers that rings order."""

    pass_name: str
    team: plan.Team
    handed_over: frozenset[SharedBuffer]
    writes: dict[SharedBuffer, _State] = field(default_factory=dict)
    reads: dict[SharedBuffer, _State] = field(default_factory=dict)
    boxes: list[SharedBuffer] = field(default_factory=list)
    products: list[WarpgroupMma] = field(default_factory=list)

    def run(self, events: Sequence[Event]) -> None:
        """Raises InternalError naming the pass and the buffer or sum."""
        for event in events:
            if not isinstance(event.op, Reached):
                self._operation(event.op)
        if self.boxes or self.products:
            raise InternalError(self.pass_name, "the hardware is at work when the role ends")

    def _operation(self, op: Leaf) -> None:
        match op:
            case plan.ProxyFence():
                self.writes = {buffer: max(state, _State.SETTLED) for buffer, state in self.writes.items()}
            case plan.Barrier(scope=Scope.BLOCK):
                self.writes, self.reads = _known(self.writes), _known(self.reads)
            case plan.BoxWait(pending=pending):
                done, self.boxes = self.boxes[: len(self.boxes) - pending], self.boxes[len(self.boxes) - pending :]
                self.reads |= dict.fromkeys(done, _State.SETTLED)
            case plan.MmaWait(pending=pending):
                self.products = self.products[len(self.products) - pending :]
            case _:
                self._touch(op)

    def _touch(self, op: Leaf) -> None:
        for access in accesses(op, self.team):
            if access.buffer not in self.handed_over:
                self._access(access)
        for product in self.products:
            if not isinstance(op, WarpgroupMma) and any(home == product.acc for home in operands(op)):
                raise InternalError(self.pass_name, f"{product.acc.name} is touched before its product has ended")
        match op:
            case WarpgroupMma():
                self.products.append(op)
            case BoxOut():
                self.boxes.append(op.src.buffer)
                self.reads[op.src.buffer] = _State.DONE
            case _:
                pass

    def _access(self, access: Access) -> None:
        name = access.buffer.name
        if access.by_hardware and self.writes.get(access.buffer, _State.KNOWN) is not _State.KNOWN:
            raise InternalError(self.pass_name, f"the hardware reads {name}, which was not fenced and made known")
        if access.is_write and self.reads.get(access.buffer, _State.KNOWN) is not _State.KNOWN:
            raise InternalError(self.pass_name, f"{name} is written while a box still reads it")
        if access.is_write:
            self.writes[access.buffer] = _State.DONE


def _known(states: dict[SharedBuffer, _State]) -> dict[SharedBuffer, _State]:
    """What whoever did it has settled is known after the team has met."""
    return {buffer: _State.KNOWN if state >= _State.SETTLED else state for buffer, state in states.items()}
