"""The head of a kernel: where the thread stands, the grid's coordinates and windows, the shared-memory tiles."""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir.device import (
    Blank,
    Braces,
    Branch,
    CExpr,
    CStmt,
    Declare,
    Infix,
    Return,
    add,
    call,
    mul,
    name,
    num,
)
from loomgen.ir.plan import WARP_THREADS, RingEnd, SharedLayout, Team
from loomgen.ir.tile import GridAxis, WindowKind
from loomgen.passes.allocate import RING_BARRIER_BYTES
from loomgen.passes.lower.names import LANE, SLAB, WARP, Naming, tile_type
from loomgen.passes.lower.roles import barrier_ring, initialise

_OF_BLOCK = ("$lane", "$warp")
"""What a thread is called in every role alike."""


def prologue(
    grid: tuple[GridAxis, ...], team: Team, layout: SharedLayout, naming: Naming, *, has_roles: bool
) -> list[CStmt]:
    """The head of the kernel; where the warps part, each role says where its threads stand (`role_thread`)."""
    thread = [stmt for stmt in _thread(team) if not has_roles or stmt.name in _OF_BLOCK]
    tiles = (*_tiles(layout, naming), *_barriers(layout), Blank(), *initialise(ring for ring, _ in layout.barriers))
    return [*thread, Blank(), *_coordinates(grid), Blank(), *tiles, Blank()]


def role_thread(team: Team, first_warp: int) -> list[CStmt]:
    """Where the thread stands among its role's."""
    first_thread = num(-WARP_THREADS * first_warp)
    own: dict[str, CExpr] = {"$thread": add(call("thread_index"), first_thread), "$slab": add(WARP, num(-first_warp))}
    inner = (stmt for stmt in _thread(team) if stmt.name not in _OF_BLOCK)
    return [replace(stmt, init=own.get(stmt.name, stmt.init)) for stmt in inner]


def _thread(team: Team) -> list[Declare]:
    quarter = Infix(op="/", a=LANE, b=num(4))
    upper = Infix(op="/", a=LANE, b=num(16))
    variables: list[tuple[str, CExpr]] = [
        ("$thread", call("thread_index")),
        ("$lane", call("lane_index")),
        ("$warp", call("warp_index")),
        ("$slab", Infix(op="%", a=WARP, b=num(team.slabs)) if team.parts > 1 else WARP),
        ("$part", Infix(op="/", a=WARP, b=num(team.slabs))),
        ("$row", add(mul(num(16), SLAB), quarter)),
        ("$col", mul(num(2), Infix(op="%", a=LANE, b=num(4)))),
        ("$lane_row", Infix(op="%", a=LANE, b=num(16))),
        ("$lane_col", mul(num(8), upper)),
        ("$pair_row", add(mul(num(8), upper), Infix(op="%", a=LANE, b=num(8)))),
        ("$pair_col", mul(num(8), Infix(op="%", a=Infix(op="/", a=LANE, b=num(8)), b=num(2)))),
    ]
    return [Declare(type="const int", name=text, init=value) for text, value in variables]


def _coordinates(grid: tuple[GridAxis, ...]) -> list[CStmt]:
    """Grid coordinates from the block number, the last axis fastest, then the windows that they bind."""
    rest: CExpr = name("$block")
    declared: list[CStmt] = []
    for axis in reversed(grid):
        count = num(axis.count) if isinstance(axis.count, int) else name(axis.count)
        value = rest if axis is grid[0] else Infix(op="%", a=rest, b=count)
        declared.append(Declare(type="const int", name=axis.name, init=call("static_cast<int>", value)))
        rest = Infix(op="/", a=rest, b=count)
    out: list[CStmt] = [Declare(type="const int64_t", name="$block", init=call("block_index")), *reversed(declared)]
    for axis in grid:
        out += _window(axis)
    return out


def _window(axis: GridAxis) -> list[CStmt]:
    """Start and length from the tables; a chunk of the grid that does not exist ends the block."""
    window = axis.window
    if window is None or window.kind is WindowKind.BLOCK:
        return []
    at, start, length = name(axis.name), f"{axis.name}$start", f"{axis.name}$len"
    if window.kind is WindowKind.SEQUENCE:
        first = add(name("cu_seqlens"), at)
        n_tokens = Infix(op="-", a=call("ld_global", add(first, num(1))), b=name(start))
        return [
            Declare(type="const int", name=start, init=call("ld_global", first)),
            Declare(type="const int", name=length, init=n_tokens),
        ]
    return [
        Declare(type="const int", name=start, init=call("ld_global", add(name("chunk_start"), at))),
        Declare(type="const int", name=length, init=call("ld_global", add(name("chunk_len"), at))),
        Branch(cond=Infix(op="==", a=name(length), b=num(0)), then=(Return(),)),
    ]


def _tiles(layout: SharedLayout, naming: Naming) -> list[CStmt]:
    out: list[CStmt] = [Declare(type="const SharedAddr", name="$smem", init=call("shared_memory"))]
    for buffer, offset in layout.offsets:
        base = Braces(items=(add(name("$smem"), num(offset)),))
        variable = naming.ring(buffer.name) if buffer.slots > 1 else naming.local(buffer.name)
        out.append(Declare(type=f"const {tile_type(buffer)}", name=variable, init=base))
    return out


def _barriers(layout: SharedLayout) -> list[CStmt]:
    """Each ring's full barriers, then its empty ones."""
    out: list[CStmt] = []
    for ring, offset in layout.barriers:
        for n, end in enumerate(RingEnd):
            base = Braces(items=(add(name("$smem"), num(offset + n * ring.slots * RING_BARRIER_BYTES)),))
            out.append(Declare(type=f"const BarrierRing<{ring.slots}>", name=barrier_ring(ring, end), init=base))
    return out
