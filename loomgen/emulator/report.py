"""What a launch in the emulator reports: counts when it ends well, an :class:`EmulatorFault` when it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from loomgen.errors import KernelFault
from loomgen.toolchain.errors import BuildFailed


class FaultKind(IntEnum):
    """What a kernel can do wrong."""

    RACE = 1  # two accesses of one block, one of them a write, that no barrier orders
    GRID_RACE = 2  # the same between two blocks, which nothing orders
    UNINITIALISED = 3  # a read of shared memory or of an output that nothing has written
    PENDING_COPY = 4  # an access to the destination of a cp.async, or a write to its source, before its wait; an end
    # before the wait for a box
    OUT_OF_BOUNDS = 5  # outside every tensor, a tile or shared memory, or through a null pointer
    READ_ONLY = 6  # a write to an input
    MISALIGNED = 7
    LAYOUT = 8  # shared bytes read under another swizzle or pitch than written
    DIVERGENT_COLLECTIVE = 9  # the lanes of a warp meet in different collectives, or some never come
    DIVERGENT_BARRIER = 10  # the same for the threads of a block and sync_block
    DEADLOCK = 11
    BAD_BARRIER = 12  # a named barrier with a wrong number or wrong numbers of threads; an mbarrier misused
    PROXY = 13  # shared memory that a thread wrote reaches a copy or product without that thread's fence
    ACCUMULATOR = 14  # accumulators touched while a product has them, unfenced, or never waited for
    BAD_BOX = 15  # a tile that is no box of the tensor map
    BAD_REGISTERS = 16  # registers claimed by threads that have more, or released by threads that have fewer


class EmulatorFault(KernelFault):
    """What a kernel did wrong, and where in the grid, the source and the spec.

    ``statement`` is the nearest ``/// `` comment above the line, the spec statement it carries out.
    """

    def __init__(
        self, kind: FaultKind, *, kernel: str, block: int, thread: int, line: int, statement: str | None, message: str
    ) -> None:
        self.kind = kind
        self.kernel = kernel
        self.block = block
        self.thread = thread
        self.line = line
        self.statement = statement
        self.message = message
        place = f"{kernel}:{line}, block {block}, thread {thread}"
        meaning = f" (in: {statement})" if statement else ""
        super().__init__(f"{kind.name.lower()} at {place}: {message}{meaning}")


class EmulatorBuildError(BuildFailed):
    """A kernel or the emulator could not be compiled for the host; the compiler's messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BankUse:
    """A line's accesses to shared memory and their bank conflicts.

    ``accesses`` counts those of a warp (a phase of eight rows for ldmatrix and stmatrix), ``conflicts`` the
    wavefronts beyond one for every 128 bytes.
    """

    accesses: int
    conflicts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorReport:
    """Counts of a launch, keyed by source line, and the bytes of each output that nothing wrote.

    ``primitives[line][name]``: warp collectives count once a warp, barriers once a meeting, all else once a thread.
    """

    banks: Mapping[int, BankUse]
    primitives: Mapping[int, Mapping[str, int]]
    unwritten: Mapping[str, int]

    @property
    def conflicts(self) -> int:
        """Bank conflicts of the whole launch."""
        return sum(use.conflicts for use in self.banks.values())


def statement_above(source: str, line: int) -> str | None:
    """The text of the nearest line at or above ``line`` (from 1) that is a ``/// `` comment."""
    for text in reversed(source.splitlines()[:line]):
        if text.strip().startswith("/// "):
            return text.strip().removeprefix("/// ")
    return None
