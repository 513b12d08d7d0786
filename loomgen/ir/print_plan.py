"""Plan IR as text: one line an operation, for ``loomgen explain`` and for tests."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import assert_never

from loomgen.ir.plan import (
    Arrive,
    Barrier,
    BoxIn,
    BoxOut,
    BoxWait,
    ChunkLoop,
    Commit,
    Conditional,
    CopyIn,
    CopyOut,
    DiagonalBlocks,
    ExchangeRead,
    ExchangeWrite,
    Fragment,
    Home,
    Homes,
    LoadFragment,
    LoadStrip,
    MapFragment,
    MapRows,
    MapScalar,
    MapShared,
    Mma,
    MmaWait,
    Move,
    Plan,
    PlanOp,
    Prefetch,
    Preload,
    ProxyFence,
    RangeLoop,
    ReduceColumns,
    ReduceVector,
    RegisterTile,
    RingFill,
    RingRelease,
    RingWait,
    RoleArm,
    Roles,
    RowTile,
    ScalarHome,
    ScalarUse,
    ScanVector,
    Scope,
    SharedBuffer,
    SharedLayout,
    SharedRef,
    StoreDirect,
    StoreFragment,
    StoreRows,
    StoreScalars,
    Strip,
    StripTile,
    Team,
    Wait,
    WarpgroupMma,
)
from loomgen.ir.print_tile import print_chunks, print_coord, print_expr
from loomgen.ir.tile import Coord, Tensor


def print_plan(kernel: Plan) -> str:
    """The team and the operations; ends with a newline."""
    lines = [_team(kernel.team), *(f"  {line}" for line in _block(kernel.body))]
    return "\n".join(lines) + "\n"


def print_layout(layout: SharedLayout) -> str:
    """The shared memory, buffer by buffer from its start; ends with a newline."""
    lines = [f"shared memory: {layout.n_bytes} bytes"]
    for buffer, offset in sorted(layout.offsets, key=lambda item: (item[1], item[0].name)):
        lines.append(f"  {offset:>6} .. {offset + buffer.n_bytes:<6} {_buffer(buffer)}")
    return "\n".join(lines) + "\n"


def _team(team: Team) -> str:
    return f"team: {team.slabs} slabs x {team.parts} parts = {team.warps} warps, {team.threads} threads"


def _buffer(buffer: SharedBuffer) -> str:
    shape = f"{buffer.cols}" if buffer.rows == 1 else f"{buffer.rows} x {buffer.cols}"
    text = f"{buffer.name}: {buffer.dtype.value} {shape}"
    if buffer.panels > 1:
        text += f" in {buffer.panels} panels"
    elif buffer.pitch != buffer.cols:
        text += f", pitch {buffer.pitch}"
    if buffer.swizzle:
        text += f", swizzle {buffer.swizzle}"
    return text if buffer.slots == 1 else f"{text}, {buffer.slots} slots"


# --------------------------------------------------------------------------- operations


def _block(ops: tuple[PlanOp, ...]) -> Iterator[str]:
    if not ops:
        yield "nothing"
    for op in ops:
        yield from _operation(op)


def _operation(op: PlanOp) -> Iterator[str]:
    match op:
        case ChunkLoop():
            yield f"for {op.window.name} in {print_chunks(op.window, is_reversed=op.is_reversed)}:"
            yield from _indented(_block(op.body))
        case RangeLoop():
            yield f"for {op.name} in range({print_expr(op.begin)}, {print_expr(op.end)}):"
            yield from _indented(_block(op.body))
        case Preload() | Prefetch():
            yield _ahead(op)
            yield from _indented(_block(op.copies))
        case Conditional():
            yield f"if {print_expr(op.cond)}:"
            yield from _indented(_block(op.then))
            if op.orelse:
                yield "else:"
                yield from _indented(_block(op.orelse))
        case Roles():
            for arm in op.arms:
                yield _arm(arm)
                yield from _indented(_block(arm.body))
        case CopyIn() | CopyOut() | BoxIn() | BoxOut() | StoreDirect() | StoreScalars() | LoadStrip():
            yield _global_movement(op)
        case LoadFragment() | StoreFragment() | StoreRows() | Move():
            yield _movement(op)
        case MapFragment() | MapShared() | MapRows() | MapScalar():
            yield f"{_target(op)} = {print_expr(op.expr)}{_homes(op.homes)}"
        case ReduceColumns() | ReduceVector() | ScanVector():
            yield _sum(op)
        case Mma() | WarpgroupMma() | ExchangeWrite() | ExchangeRead() | DiagonalBlocks():
            yield _product(op)
        case Arrive() | Commit() | Wait() | Barrier():
            yield _synchronisation(op)
        case RingWait() | RingFill() | RingRelease() | MmaWait() | BoxWait() | ProxyFence():
            yield _hand_over(op)
        case _:
            assert_never(op)


def _ahead(op: Preload | Prefetch) -> str:
    if isinstance(op, Preload):
        return f"preload the first {op.count} of {print_chunks(op.window, is_reversed=op.is_reversed)}, a group each:"
    return f"prefetch chunk {op.window.name} {'-' if op.is_reversed else '+'} {op.ahead}, if there is one:"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _global_movement(op: BoxIn | BoxOut | CopyIn | CopyOut | StoreDirect | StoreScalars | LoadStrip) -> str:
    match op:
        case CopyIn():
            source = _element(op.source.tensor, op.source.coords)
            return f"copy in {_ref(op.dst)} = {source}, {op.vector_bytes} bytes a thread, asynchronous"
        case BoxIn():
            return f"copy in {_ref(op.dst)} = {_element(op.source.tensor, op.source.coords)} by boxes, asynchronous"
        case BoxOut():
            return f"copy out {_element(op.tensor, op.coords)} = {_ref(op.src)} by boxes, asynchronous"
        case CopyOut():
            whose = "" if op.of_warps is None else ", each warp its own rows"
            return f"copy out {_element(op.tensor, op.coords)} = {_ref(op.src)}{whose}"
        case StoreDirect() | StoreScalars():
            return f"store {_element(op.tensor, op.coords)} = {_home(op.src)}"
        case LoadStrip():
            return f"load {_home(op.dst)} = {_element(op.source.tensor, op.source.coords)}"
        case _:
            assert_never(op)


def _movement(op: LoadFragment | StoreFragment | StoreRows | Move) -> str:
    match op:
        case LoadFragment():
            return f"load {_home(op.dst)} = {_ref(op.src)}{_transposed(op.transposed)}"
        case StoreFragment():
            return f"store {_ref(op.dst)} = {_home(op.src)}{_transposed(op.transposed)}"
        case StoreRows():
            return f"store {_ref(op.dst)} = {_home(op.src)}"
        case Move():
            return f"move {_home(op.dst)} = {_home(op.src)}"
        case _:
            assert_never(op)


def _target(op: MapFragment | MapShared | MapRows | MapScalar) -> str:
    if not isinstance(op, MapScalar):
        return f"map {_home(op.dst)}"
    verb = {ScalarUse.CONSTANT: "map", ScalarUse.VARIABLE: "map variable", ScalarUse.ASSIGNMENT: "assign"}[op.use]
    return f"{verb} {_home(op.dst)}"


def _homes(homes: Homes) -> str:
    found = [_home(home) for _, home in homes if not isinstance(home, ScalarHome)]
    return f"  (from {', '.join(found)})" if found else ""


def _sum(op: ReduceColumns | ReduceVector | ScanVector) -> str:
    match op:
        case ReduceColumns():
            parts = f", {op.parts} parts" if op.parts > 1 else ""
            what = f"{op.op.value}[{op.layout.cols}] {print_expr(op.expr)}"
            return f"reduce {_home(op.dst)} = {what}{_homes(op.homes)}{parts}"
        case ReduceVector():
            return f"reduce {_home(op.dst)} = {op.op.value}[{op.over}] {print_expr(op.expr)}{_homes(op.homes)}"
        case ScanVector():
            return f"scan {_ref(op.dst)} = {op.op.value} {_ref(op.src)}"
        case _:
            assert_never(op)


def _product(op: Mma | WarpgroupMma | ExchangeWrite | ExchangeRead | DiagonalBlocks) -> str:
    match op:
        case Mma():
            sign = "+=" if op.seeded else "="
            parts = f", {op.parts} parts" if op.parts > 1 else ""
            operands = f"{_home(op.a)} @ {_ref(op.b)}{_transposed(op.transposed)}"
            return f"mma {_home(op.acc)} {sign} {operands} over {op.over}, {op.atom.value}{parts}"
        case WarpgroupMma():
            sign = "+=" if op.seeded else "="
            return f"mma {_home(op.acc)} {sign} {_ref(op.a)} @ {_ref(op.b)} over {op.over}, wgmma, asynchronous"
        case ExchangeWrite():
            return f"exchange: write {_home(op.src)} to {op.scratch.name}"
        case ExchangeRead():
            return f"exchange: {_home(op.dst)} = {op.op.value} of the parts in {op.scratch.name}, low to high"
        case DiagonalBlocks():
            return f"invert the diagonal blocks of 1 + {_ref(op.src)} to {_ref(op.dst)}"
        case _:
            assert_never(op)


def _arm(arm: RoleArm) -> str:
    warps = f"warps {arm.first_warp} .. {arm.first_warp + arm.team.warps - 1}"
    registers = "" if arm.registers is None else f", {arm.registers} registers a thread"
    return f"role {arm.name}, {warps}{registers}{', in one thread' if arm.is_single else ''}:"


def _hand_over(op: RingWait | RingFill | RingRelease | MmaWait | BoxWait | ProxyFence) -> str:
    match op:
        case RingWait():
            return f"wait until the slot of {op.ring.name} is {op.end.value}  ({op.reason})"
        case RingFill():
            return f"fill the slot of {op.ring.name}: {op.ring.n_bytes} bytes"
        case RingRelease():
            return f"release the slot of {op.ring.name}"
        case MmaWait():
            return f"wait for all but {op.pending} groups of products  ({op.reason})"
        case BoxWait():
            return f"wait for all but {op.pending} groups of boxes  ({op.reason})"
        case ProxyFence():
            return f"fence for the copy and product hardware  ({op.reason})"
        case _:
            assert_never(op)


def _synchronisation(op: Arrive | Commit | Wait | Barrier) -> str:
    match op:
        case Arrive():
            return f"arrive {', '.join(_ref(ref) for ref in op.refs)}"
        case Commit():
            return "commit"
        case Wait():
            return f"wait for all but {op.pending} groups  ({op.reason})"
        case Barrier():
            who = {Scope.THREAD: "thread", Scope.WARP: "warp", Scope.BLOCK: "block"}[op.scope]
            return f"barrier of the {who}  ({op.reason})"
        case _:
            assert_never(op)


# --------------------------------------------------------------------------- operands


def _element(tensor: Tensor, coords: tuple[Coord, ...]) -> str:
    return f"{tensor.name}[{', '.join(print_coord(coord) for coord in coords)}]"


def _home(home: Home) -> str:
    """``%x``: registers, ``kc``: shared memory."""
    match home:
        case RegisterTile():
            return f"%{home.name}[{_axes(home.fragment)}]:{home.dtype.value}"
        case StripTile():
            return f"%{home.name}[{_axes(home.layout)}]:{home.dtype.value}"
        case RowTile():
            return f"%{home.name}[{home.layout.rows}]:{home.dtype.value}"
        case SharedRef():
            return _ref(home)
        case ScalarHome():
            return f"%{home.name}:{home.dtype.value}"
        case _:
            assert_never(home)


def _axes(layout: Fragment | Strip) -> str:
    """Rows, columns; ``/2``: each of 2 parts of the team holds its share of the columns; ``x4``: 4 columns a thread."""
    if isinstance(layout, Strip):
        return f"{layout.rows},{layout.cols} x{layout.vector}"
    share = f"/{layout.col_parts}" if layout.col_parts > 1 else ""
    return f"{layout.rows},{layout.cols}{share}"


def _ref(ref: SharedRef) -> str:
    """``kc[i,d]``; ``^+1``: the slot of the next iteration; ``U[a16 + 16,b16]``: a block."""
    ahead = f"^+{ref.ahead}" if ref.ahead else ""
    starts = (ref.row0, ref.col0) if len(ref.axes) == 2 else (ref.col0,)
    axes = [f"{axis} + {start}" if start else axis.name for axis, start in zip(ref.axes, starts, strict=False)]
    return f"{ref.buffer.name}{ahead}[{','.join(axes)}]"


def _transposed(transposed: bool) -> str:
    return ", transposed" if transposed else ""
