"""Plan IR: how a kernel's threads carry out a program: synchronisation, control, the kernel.

Layouts (`ir.layout`) and operations (`ir.operations`) are re-exported here. Element expressions are still Tile IR
expressions; ``homes`` says where each tile they read lives.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from loomgen.ir.layout import (
    WARP_THREADS,
    Fragment,
    Home,
    Homes,
    RegisterLayout,
    RegisterTile,
    RowTile,
    ScalarHome,
    SharedBuffer,
    SharedRef,
    Strip,
    StripTile,
    Team,
)
from loomgen.ir.operations import (
    Atom,
    BoxIn,
    BoxOut,
    CopyIn,
    CopyOut,
    DiagonalBlocks,
    ExchangeRead,
    ExchangeWrite,
    LoadFragment,
    LoadStrip,
    MapFragment,
    MapRows,
    MapScalar,
    MapShared,
    Mma,
    Move,
    ReduceColumns,
    ReduceVector,
    ScalarUse,
    ScanVector,
    StoreDirect,
    StoreFragment,
    StoreRows,
    StoreScalars,
    WarpgroupMma,
)
from loomgen.ir.roles import (
    BoxWait,
    MmaWait,
    ProxyFence,
    Ring,
    RingEnd,
    RingFill,
    RingRelease,
    RingWait,
    Synchronisation,
)
from loomgen.ir.tile import Expr, Window

__all__ = [
    "WARP_THREADS",
    "Arrive",
    "Atom",
    "Barrier",
    "BoxIn",
    "BoxOut",
    "BoxWait",
    "ChunkLoop",
    "Commit",
    "Conditional",
    "CopyIn",
    "CopyOut",
    "DiagonalBlocks",
    "ExchangeRead",
    "ExchangeWrite",
    "Fragment",
    "Home",
    "Homes",
    "Leaf",
    "LoadFragment",
    "LoadStrip",
    "MapFragment",
    "MapRows",
    "MapScalar",
    "MapShared",
    "Mma",
    "MmaWait",
    "Move",
    "Plan",
    "PlanOp",
    "Prefetch",
    "Preload",
    "ProxyFence",
    "RangeLoop",
    "ReduceColumns",
    "ReduceVector",
    "RegisterLayout",
    "RegisterTile",
    "Ring",
    "RingEnd",
    "RingFill",
    "RingRelease",
    "RingWait",
    "RoleArm",
    "Roles",
    "RowTile",
    "ScalarHome",
    "ScalarUse",
    "ScanVector",
    "Scope",
    "SharedBuffer",
    "SharedLayout",
    "SharedRef",
    "StoreDirect",
    "StoreFragment",
    "StoreRows",
    "StoreScalars",
    "Strip",
    "StripTile",
    "Synchronisation",
    "Team",
    "Wait",
    "WarpgroupMma",
]

# --------------------------------------------------------------------------- synchronisation


class Scope(Enum):
    """Who has to wait for whom; ordered."""

    THREAD = 0
    WARP = 1
    BLOCK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrive(Synchronisation):
    """The point of an iteration at which ring slots, or partial sums, must be complete for every thread; emits nothing
    itself.
    """

    refs: tuple[SharedRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(Synchronisation):
    """Closes the calling thread's group of asynchronous copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait(Synchronisation):
    """Waits until at most ``pending`` of the thread's youngest groups are in flight."""

    pending: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier(Synchronisation):
    """Orders memory among the threads of ``scope``; ``reason`` names the two accesses that need it."""

    scope: Scope
    reason: str


# --------------------------------------------------------------------------- control


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLoop:
    """Over the chunks of a sequence; ``is_reversed``: the last one first. Rings turn with the iterations, which count
    up in either direction.
    """

    window: Window
    body: tuple[PlanOp, ...]
    text: str
    is_reversed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeLoop:
    name: str
    begin: Expr
    end: Expr
    homes: Homes
    body: tuple[PlanOp, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preload:
    """The copies of the first ``count`` iterations of a chunk loop, before it; one group an iteration. It and the loop
    have one direction.
    """

    window: Window
    count: int
    copies: tuple[CopyIn, ...]
    is_reversed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch:
    """Inside a chunk loop: the copies of the iteration ``ahead`` later, where there is one; in the loop's direction."""

    window: Window
    ahead: int
    copies: tuple[CopyIn, ...]
    is_reversed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional:
    """A uniform branch."""

    cond: Expr
    homes: Homes
    then: tuple[PlanOp, ...]
    orelse: tuple[PlanOp, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleArm:
    """What one role's warps do, ``first_warp`` of the block and those after it; ``team`` counts from its first warp.

    ``registers``: what each of its threads then holds. ``is_single``: its first thread does all.
    """

    name: str
    first_warp: int
    team: Team
    registers: int | None
    is_single: bool
    body: tuple[PlanOp, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The block's warps part: each role runs its own arm beside the others."""

    arms: tuple[RoleArm, ...]


Leaf = (
    CopyIn
    | CopyOut
    | StoreDirect
    | StoreScalars
    | LoadFragment
    | StoreFragment
    | Move
    | MapFragment
    | MapShared
    | MapScalar
    | MapRows
    | ReduceColumns
    | ReduceVector
    | ScanVector
    | LoadStrip
    | StoreRows
    | BoxIn
    | BoxOut
    | Mma
    | WarpgroupMma
    | ExchangeWrite
    | ExchangeRead
    | DiagonalBlocks
    | Arrive
    | Commit
    | Wait
    | Barrier
    | RingWait
    | RingFill
    | RingRelease
    | MmaWait
    | BoxWait
    | ProxyFence
)
PlanOp = Leaf | ChunkLoop | RangeLoop | Preload | Prefetch | Conditional | Roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A kernel before its shared memory is laid out and synchronised."""

    team: Team
    body: tuple[PlanOp, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLayout:
    """Where each buffer lies, and each ring's barriers, the full ones first: byte offsets into the dynamic shared
    memory of ``n_bytes``.
    """

    offsets: tuple[tuple[SharedBuffer, int], ...]
    n_bytes: int
    barriers: tuple[tuple[Ring, int], ...] = ()
