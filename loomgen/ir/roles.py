"""How roles hand tiles to one another, and how a thread waits for the hardware that works beside it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from loomgen.ir.layout import RegisterTile, SharedBuffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronisation:
    """What orders operations; it moves and computes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """The slots through which ``producer`` hands ``buffers`` to ``consumer``, with two barriers a slot.

    A slot is full once the producer has said what comes and all its bytes have come, ``n_bytes`` a use; it is empty
    once ``releases`` warps of the consumer are done with it. Use n of the loop takes slot n % slots, whose barriers
    then are in phase n / slots.
    """

    name: str
    producer: str
    consumer: str
    buffers: tuple[SharedBuffer, ...]
    slots: int
    n_bytes: int
    releases: int


class RingEnd(Enum):
    """What a role waits for."""

    FULL = "full"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class RingWait(Synchronisation):
    """Waits until this iteration's slot is full, or empty again; ``reason`` names the accesses that it orders."""

    ring: Ring
    end: RingEnd
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RingFill(Synchronisation):
    """The producer says how many bytes will come to this iteration's slot."""

    ring: Ring


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRelease(Synchronisation):
    """Each warp of the consumer is done with this iteration's slot."""

    ring: Ring


@dataclass(frozen=True, slots=True, kw_only=True)
class MmaWait(Synchronisation):
    """Waits until at most ``pending`` of the youngest groups of asynchronous products are under way; ``sums`` are those
    of the groups that then are done.
    """

    pending: int
    sums: tuple[RegisterTile, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxWait(Synchronisation):
    """The thread that stores boxes waits until at most ``pending`` of its youngest groups still read shared memory."""

    pending: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFence(Synchronisation):
    """What the thread has written to shared memory is what the copy and product hardware will read."""

    reason: str
