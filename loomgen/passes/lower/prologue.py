"""The head of a kernel: static numbers, where the thread stands, the grid's coordinates and windows, the shared-memory
tiles.
"""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir.device import (
    Blank,
    Braces,
    Branch,
    CExpr,
    Comment,
    CStmt,
    Declare,
    Infix,
    Name,
    Return,
    add,
    call,
    mul,
    name,
    num,
)
from loomgen.ir.plan import WARP_THREADS, RingEnd, SharedBuffer, SharedLayout, Team
from loomgen.ir.tile import Expr, GridAxis, Program, WindowKind
from loomgen.ir.types import DType
from loomgen.passes.allocate import RING_BARRIER_BYTES
from loomgen.passes.lower.maps import MapContext
from loomgen.passes.lower.names import LANE, MATRIX_ROW, SLAB, WARP, Naming, pitch_name, tile_type
from loomgen.passes.lower.roles import barrier_ring, initialise
from loomgen.passes.lower.statics import constants, static

_PADDED = "padded, so that rows start in different banks"


_OF_BLOCK = ("$lane", "$warp")
"""What a thread is called in every role alike."""


def prologue(program: Program, team: Team, layout: SharedLayout, naming: Naming, *, has_roles: bool) -> list[CStmt]:
    """The head of the kernel; where the warps part, each role says where its threads stand (`role_thread`)."""
    thread = [stmt for stmt in _thread(team) if not has_roles or stmt.name in _OF_BLOCK]
    barriers = initialise(ring for ring, _ in layout.barriers)
    tiles = (*_tiles(layout, naming), *_barriers(layout))
    parts = (constants(program), thread, _coordinates(program.grid), tiles, barriers)
    return [stmt for part in parts for stmt in (*part, Blank())]


def role_thread(team: Team, first_warp: int) -> list[CStmt]:
    """Where the thread stands among its role's."""
    first_thread = num(-WARP_THREADS * first_warp)
    own: dict[str, CExpr] = {"$thread": add(call("thread_index"), first_thread), "$slab": add(WARP, num(-first_warp))}
    inner = (stmt for stmt in _thread(team) if stmt.name not in _OF_BLOCK)
    return [replace(stmt, init=own.get(stmt.name, stmt.init)) for stmt in inner]


def where_names(program: Program, context: MapContext) -> tuple[list[Declare], tuple[tuple[Expr, CExpr], ...]]:
    """Declarations of the spec's ``where`` names, and which expressions they stand for."""
    declared: list[Declare] = []
    named: list[tuple[Expr, CExpr]] = []
    for text, expr in program.where:
        if expr.dtype is not DType.I32:
            continue
        value = replace(context, where=tuple(named)).uniform(expr, ())
        if isinstance(value, Name):
            continue
        declared.append(Declare(type="const int", name=text, init=value))
        named.append((expr, name(text)))
    return declared, tuple(named)


def _thread(team: Team) -> list[Declare]:
    """Named as in loom/mma.cuh, where the maps of lanes to the elements of matrices are."""
    upper = Infix(op="/", a=LANE, b=num(16))
    slab = Infix(op="%", a=WARP, b=num(team.slabs)) if team.parts > 1 else WARP
    middle = Infix(op="%", a=Infix(op="/", a=LANE, b=num(8)), b=num(2))
    variables: list[tuple[str, CExpr, str]] = [
        ("$thread", call("thread_index"), ""),
        ("$lane", call("lane_index"), ""),
        ("$warp", call("warp_index"), ""),
        ("$slab", slab, "rows 16 * slab .. 16 * slab + 15 of a fragment are this warp's"),
        ("$part", Infix(op="/", a=WARP, b=num(team.slabs)), "its part of the index that is split"),
        ("$matrix_row", Infix(op="/", a=LANE, b=num(4)), "this lane's row of an 8x8 matrix"),
        ("$row", add(mul(num(16), SLAB), MATRIX_ROW), "its first row of an m16n8 accumulator; the other is row + 8"),
        ("$col", mul(num(2), Infix(op="%", a=LANE, b=num(4))), "the first of its two columns in an 8-column tile"),
        (
            "$lane_row",
            Infix(op="%", a=LANE, b=num(16)),
            "ldmatrix, stmatrix: this lane's row of 8 in a 16x16 block,",
        ),
        ("$lane_col", mul(num(8), upper), "whose 8x8 matrices have the order (0,0) (1,0) (0,1) (1,1)"),
        (
            "$pair_row",
            add(mul(num(8), upper), Infix(op="%", a=LANE, b=num(8))),
            "the same, in the order (0,0) (0,1) (1,0) (1,1)",
        ),
        ("$pair_col", mul(num(8), middle), ""),
    ]
    return [Declare(type="const int", name=text, init=value, remark=remark) for text, value, remark in variables]


def _coordinates(grid: tuple[GridAxis, ...]) -> list[CStmt]:
    """Grid coordinates from the block number, the last axis fastest, then the windows that they bind."""
    rest: CExpr = name("$block")
    declared: list[CStmt] = []
    for axis in reversed(grid):
        count = static(axis.symbol, axis.count) if isinstance(axis.count, int) else name(axis.count)
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
    """First where each tile begins, then the tiles: SharedTile<element, rows, columns, pitch, swizzle>."""
    if not layout.offsets:
        return []
    offsets: list[CStmt] = [Comment(text="Byte offsets into shared memory. What shares bytes is never alive at once.")]
    pitches: list[CStmt] = []
    tiles: list[CStmt] = [Declare(type="const SharedAddr", name="$smem", init=call("shared_memory"))]
    for buffer, offset in layout.offsets:
        variable = naming.ring(buffer.name) if buffer.slots > 1 else naming.local(buffer.name)
        place = f"{variable}$offset"
        offsets.append(Declare(type="constexpr int", name=place, init=num(offset), remark=_size(buffer)))
        if buffer.pitch != buffer.cols:
            padded = add(static(buffer.symbols[1], buffer.cols), num(buffer.pitch - buffer.cols))
            pitches.append(Declare(type="constexpr int", name=pitch_name(variable), init=padded, remark=_PADDED))
        base = Braces(items=(add(name("$smem"), name(place)),))
        tiles.append(Declare(type=f"const {tile_type(buffer, variable)}", name=variable, init=base))
    return [*offsets, *pitches, Blank(), *tiles]


def _size(buffer: SharedBuffer) -> str:
    return f"{buffer.slot_bytes} bytes" if buffer.slots == 1 else f"{buffer.slots} slots of {buffer.slot_bytes} bytes"


def _barriers(layout: SharedLayout) -> list[CStmt]:
    """Each ring's full barriers, then its empty ones."""
    out: list[CStmt] = []
    for ring, offset in layout.barriers:
        for n, end in enumerate(RingEnd):
            base = Braces(items=(add(name("$smem"), num(offset + n * ring.slots * RING_BARRIER_BYTES)),))
            out.append(Declare(type=f"const BarrierRing<{ring.slots}>", name=barrier_ring(ring, end), init=base))
    return out
