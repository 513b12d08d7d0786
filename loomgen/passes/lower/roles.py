"""Roles in device code: the arms' heads, rings and their barriers, boxes, products of warpgroups."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from loomgen.errors import InternalError
from loomgen.ir import plan, tile
from loomgen.ir.device import (
    Branch,
    CExpr,
    CStmt,
    Declare,
    Do,
    For,
    Infix,
    Invoke,
    add,
    call,
    mul,
    name,
    num,
)
from loomgen.ir.kernel import tensor_map_name
from loomgen.ir.plan import Ring, RingEnd, SharedRef
from loomgen.ir.types import DType
from loomgen.passes.lower.addresses import box_corner
from loomgen.passes.lower.elements import Position
from loomgen.passes.lower.maps import MapContext
from loomgen.passes.lower.names import LANE, SLAB, THREAD, c_type
from loomgen.passes.lower.products import clear
from loomgen.passes.trace import leaves

_PANEL, _STEP = name("$panel"), name("$step")
_MMA_DEPTH = 16
_WARPGROUP_WARPS = 4
_WARPGROUP_ROWS = 64

# --------------------------------------------------------------------------- rings


def rings_of(ops: Iterable[plan.PlanOp]) -> tuple[Ring, ...]:
    """The rings that a block waits for, in the order of their first waits."""
    waits = (leaf for op in ops for leaf in leaves(op) if isinstance(leaf, plan.RingWait))
    return tuple(dict.fromkeys(wait.ring for wait in waits))


def turn_rings(loop: plan.RangeLoop, context: MapContext) -> list[CStmt]:
    """The slot and phase of each ring in an iteration, and the tiles of that slot."""
    out: list[CStmt] = []
    begin = context.uniform(loop.begin, loop.homes)
    use = name(loop.name) if begin == num(0) else Infix(op="-", a=name(loop.name), b=begin)
    for ring in rings_of(loop.body):
        turn = Infix(op="/", a=use, b=num(ring.slots))
        slot, phase = Infix(op="%", a=use, b=num(ring.slots)), Infix(op="%", a=turn, b=num(2))
        out.append(Declare(type="const int", name=f"{ring.name}$slot", init=slot))
        out.append(Declare(type="const int", name=f"{ring.name}$phase", init=phase))
        for buffer in ring.buffers:
            at = call(f"{context.naming.ring(buffer.name)}.at_slot", name(f"{ring.name}$slot"))
            tile_name = context.naming.tile(SharedRef(buffer=buffer, axes=()))
            out.append(Declare(type="const auto", name=tile_name, init=at))
    return out


def barrier_ring(ring: Ring, end: RingEnd) -> str:
    """The variable of a ring's full or empty barriers."""
    return f"{ring.name}${end.value}"


def initialise(rings: Iterable[Ring]) -> list[CStmt]:
    """One thread sets the barriers up, before any role waits at one."""
    inits: list[CStmt] = []
    slot = name("$slot")
    for ring in rings:
        arrivals = {RingEnd.FULL: 1, RingEnd.EMPTY: ring.releases}
        body = tuple(
            Do(call=call("mbarrier_init", call(f"{barrier_ring(ring, end)}.at", slot), num(arrivals[end])))
            for end in RingEnd
        )
        inits.append(For(var="$slot", begin=num(0), end=num(ring.slots), unroll=True, body=body))
    if not inits:
        return []
    inits.append(Do(call=call("mbarrier_init_fence")))
    is_first = Infix(op="==", a=call("thread_index"), b=num(0))
    ready = Do(call=call("sync_block"), remark="write barriers -> read barriers")
    return [Branch(cond=is_first, then=tuple(inits)), ready]


def lower_ring_wait(op: plan.RingWait, context: MapContext) -> list[CStmt]:
    """A slot's barrier is in the phase of its use when it is full, and was in the one before when it was emptied."""
    phase: CExpr = name(f"{op.ring.name}$phase")
    if op.end is RingEnd.EMPTY:
        phase = Infix(op="-", a=num(1), b=phase)
    return [Do(call=call("mbarrier_wait", _barrier(op.ring, op.end), phase), remark=op.reason)]


def lower_ring_fill(op: plan.RingFill, context: MapContext) -> list[CStmt]:
    return [Do(call=call("mbarrier_expect_bytes", _barrier(op.ring, RingEnd.FULL), num(op.ring.n_bytes)))]


def lower_ring_release(op: plan.RingRelease, context: MapContext) -> list[CStmt]:
    arrive = Do(call=call("mbarrier_arrive", _barrier(op.ring, RingEnd.EMPTY)))
    return [Branch(cond=Infix(op="==", a=LANE, b=num(0)), then=(arrive,))]


def _barrier(ring: Ring, end: RingEnd) -> CExpr:
    return call(f"{barrier_ring(ring, end)}.at", name(f"{ring.name}$slot"))


# --------------------------------------------------------------------------- boxes


def lower_box_in(op: plan.BoxIn, context: MapContext) -> list[CStmt]:
    ring = context.ring_of(op.dst.buffer)
    row, col = _corner(op.source.tensor, op.source.coords, op.homes, context)
    tensor_map, barrier = name(tensor_map_name(op.source.tensor.name)), _barrier(ring, RingEnd.FULL)
    return _panels(op.dst, context, lambda panel, at: call("tma_load", panel, tensor_map, row, add(col, at), barrier))


def lower_box_out(op: plan.BoxOut, context: MapContext) -> list[CStmt]:
    row, col = _corner(op.tensor, op.coords, op.homes, context)
    tensor_map = name(tensor_map_name(op.tensor.name))
    stores = _panels(op.src, context, lambda panel, at: call("tma_store", tensor_map, row, add(col, at), panel))
    return [_by_first_thread((*stores, Do(call=call("tma_store_commit"))))]


def lower_box_wait(op: plan.BoxWait, context: MapContext) -> list[CStmt]:
    return [_by_first_thread((Do(call=call(f"tma_store_wait<{op.pending}>"), remark=op.reason),))]


def _by_first_thread(body: tuple[CStmt, ...]) -> CStmt:
    return Branch(cond=Infix(op="==", a=THREAD, b=num(0)), then=body)


def _corner(
    tensor: tile.Tensor, coords: tuple[tile.Coord, ...], homes: plan.Homes, context: MapContext
) -> tuple[CExpr, CExpr]:
    """Row and column of the box's first element, the tensor's first dimension being the rows."""
    return box_corner(tensor, coords, context.at(homes, Position(letters={})))


def _panels(ref: SharedRef, context: MapContext, move: Callable[[CExpr, CExpr], Invoke]) -> list[CStmt]:
    """One box a panel; ``move`` takes the panel and its first column."""
    tile_name, buffer = context.naming.tile(ref), ref.buffer
    if buffer.panels == 1:
        return [Do(call=move(name(tile_name), num(0)))]
    body = Do(call=move(call(f"{tile_name}.panel", _PANEL), mul(num(buffer.panel_cols), _PANEL)))
    return [For(var="$panel", begin=num(0), end=num(buffer.panels), unroll=True, body=(body,))]


# --------------------------------------------------------------------------- products


def lower_warpgroup_mma(op: plan.WarpgroupMma, context: MapContext) -> list[CStmt]:
    """16 of the summed index a step; each warpgroup its 64 rows of the first operand, all of the second."""
    acc = context.naming.local(op.acc.name)
    warpgroup = Infix(op="/", a=SLAB, b=num(_WARPGROUP_WARPS))
    first_row = mul(num(_WARPGROUP_ROWS), warpgroup) if context.team.slabs > _WARPGROUP_WARPS else num(0)
    a, b = _operand(op.a, first_row, context), _operand(op.b, num(0), context)
    product = Do(call=call(f"wgmma_m64k16<{c_type(op.a.buffer.dtype)}>", name(acc), a, b))
    n_steps = op.over.extent // _MMA_DEPTH
    return [
        *([] if op.seeded else clear(acc, op.acc.fragment.tiles)),
        Do(call=call("wgmma_fence")),
        For(var="$step", begin=num(0), end=num(n_steps), unroll=True, body=(product,)),
        Do(call=call("wgmma_commit")),
    ]


def _operand(ref: SharedRef, first_row: CExpr, context: MapContext) -> CExpr:
    """The hardware's description of the operand's next 16 columns."""
    if ref.buffer.dtype not in (DType.BF16, DType.F16):
        raise InternalError("lower", f"{ref.buffer.name} is no 16-bit operand")
    tile_name, steps = context.naming.tile(ref), ref.buffer.panel_cols // _MMA_DEPTH
    panel: CExpr = name(tile_name)
    step: CExpr = _STEP
    if ref.buffer.panels > 1:
        panel = call(f"{tile_name}.panel", Infix(op="/", a=_STEP, b=num(steps)))
        step = Infix(op="%", a=_STEP, b=num(steps))
    return call("wgmma_operand", panel, add(num(ref.row0), first_row), add(num(ref.col0), mul(num(_MMA_DEPTH), step)))


def lower_mma_wait(op: plan.MmaWait, context: MapContext) -> list[CStmt]:
    """It names the sums, so that nothing that reads them is moved before it."""
    sums = (name(context.naming.local(acc.name)) for acc in op.sums)
    return [Do(call=call(f"wgmma_wait<{op.pending}>", acc), remark=op.reason) for acc in sums]


def lower_proxy_fence(op: plan.ProxyFence, context: MapContext) -> list[CStmt]:
    return [Do(call=call("fence_proxy_async"), remark=op.reason)]


# --------------------------------------------------------------------------- arms


def arm_registers(arm: plan.RoleArm, launched: int) -> list[CStmt]:
    """The threads give registers back, or take what the others gave back."""
    if arm.registers is None:
        return []
    function = "claim_registers" if arm.registers > launched else "release_registers"
    return [Do(call=call(f"{function}<{arm.registers}>"))]
