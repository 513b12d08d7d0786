"""Verifier of Plan IR: layouts that fit the team, operands that fit each other, values that are there when they are
read.

Holds after every pass over Plan IR: a name means one array or buffer; fragments and strips cut their tiles evenly
among the threads; an operation's operands have the shapes and dtypes that its implementation takes; registers are
written before they are read; rings are touched inside loops only. Once memory is laid out, every buffer has its place
in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from typing_extensions import assert_never

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Home, Leaf, Plan, PlanOp, RegisterTile, SharedBuffer, SharedLayout, SharedRef
from loomgen.ir.tile import Coord, Expr
from loomgen.ir.types import DType
from loomgen.ir.walk import tile_reads
from loomgen.passes.homes import PANEL_BYTES
from loomgen.passes.operands import evaluated, homes, operands, reads_registers, shared_refs, writes_registers
from loomgen.passes.select_products import WARPGROUP_COLS, WARPGROUP_ROWS
from loomgen.passes.team import SLAB_ROWS
from loomgen.passes.trace import leaves

TILE_COLS = 8
CHUNK_BYTES = 16
ALIGNMENT_BYTES = 128

_Array = tuple[object, ...]


def verify_plan(kernel: Plan, pass_name: str) -> None:
    """Raises InternalError naming the pass and the operation."""
    verifier = _Verifier(team=kernel.team, pass_name=pass_name)
    verifier.block(kernel.body, _Point())


def verify_layout(kernel: Plan, layout: SharedLayout, pass_name: str) -> None:
    """Every buffer of the plan lies, aligned, inside the shared memory; two of one name do not exist."""
    offsets = dict(layout.offsets)
    used = {ref.buffer for op in kernel.body for leaf in leaves(op) for ref in shared_refs(leaf)}
    for buffer in sorted(used, key=lambda buffer: buffer.name):
        if buffer not in offsets:
            raise InternalError(pass_name, f"buffer {buffer.name} has no place in shared memory")
        begin, end = offsets[buffer], offsets[buffer] + buffer.n_bytes
        if begin % ALIGNMENT_BYTES or end > layout.n_bytes:
            message = f"buffer {buffer.name} at bytes {begin} .. {end} of {layout.n_bytes}"
            raise InternalError(pass_name, message)


def _shape(layout: plan.RegisterLayout) -> tuple[int, ...]:
    """Equal where every thread holds the same elements, whatever the letters are called."""
    match layout:
        case plan.Fragment():
            return layout.rows.extent, layout.cols.extent, layout.col_parts
        case plan.Strip():
            return layout.rows.extent, layout.cols.extent, layout.vector, layout.groups
        case _:
            assert_never(layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """A point of the kernel: the registers that are written on every path to it, whether it is inside a loop, and the
    innermost loop over chunks.
    """

    written: frozenset[str] = frozenset()
    in_loop: bool = False
    chunks: plan.ChunkLoop | None = None

    def with_written(self, names: Iterable[str]) -> _Point:
        return replace(self, written=self.written | frozenset(names))


@dataclass(slots=True, kw_only=True)
class _Verifier:
    team: plan.Team
    pass_name: str
    arrays: dict[str, _Array] = field(default_factory=dict)
    buffers: dict[str, SharedBuffer] = field(default_factory=dict)
    text: str = ""

    def require(self, holds: bool, fault: str) -> None:
        if not holds:
            raise InternalError(self.pass_name, f"{fault}, in {self.text!r}")

    # ------------------------------------------------------------------ blocks

    def block(self, ops: tuple[PlanOp, ...], point: _Point) -> _Point:
        for at, op in enumerate(ops):
            self.text = f"{type(op).__name__}: {getattr(op, 'text', '')}"
            if isinstance(op, plan.Preload):
                self._runs_ahead_of(next((later for later in ops[at:] if isinstance(later, plan.ChunkLoop)), None), op)
            point = self._operation(op, point)
        return point

    def _runs_ahead_of(self, loop: plan.ChunkLoop | None, copies: plan.Preload | plan.Prefetch) -> None:
        """The copies are those of chunks that the loop will come to, in its direction."""
        if loop is None or loop.window != copies.window:
            raise InternalError(self.pass_name, f"copied ahead of no loop over {copies.window.name}")
        self.require(loop.is_reversed == copies.is_reversed, f"copied ahead in another direction than {loop.text!r}")

    def _operation(self, op: PlanOp, point: _Point) -> _Point:
        match op:
            case plan.ChunkLoop():
                self.block(op.body, replace(point, in_loop=True, chunks=op))
                return point
            case plan.RangeLoop():
                self._uniform((op.begin, op.end), op.homes, point)
                self.block(op.body, replace(point, in_loop=True))
                return point
            case plan.Preload() | plan.Prefetch():
                if isinstance(op, plan.Prefetch):
                    self.require(point.in_loop, "prefetched outside a loop")
                    self._runs_ahead_of(point.chunks, op)
                self.block(op.copies, replace(point, in_loop=True))
                return point
            case plan.Conditional():
                self._uniform((op.cond,), op.homes, point)
                then, orelse = self.block(op.then, point), self.block(op.orelse, point)
                return point.with_written(then.written & orelse.written)
            case plan.Roles():
                self._roles(op)
                return point
            case _:
                return self._leaf(op, point)

    def _roles(self, op: plan.Roles) -> None:
        """The arms have the block's warps one after the other, and the same buffers."""
        next_warp = 0
        for arm in op.arms:
            self.require(arm.first_warp == next_warp, f"role {arm.name} begins at warp {arm.first_warp}")
            next_warp += arm.team.warps
            inner = _Verifier(team=arm.team, pass_name=self.pass_name, buffers=self.buffers)
            inner.block(arm.body, _Point())
        self.require(next_warp == self.team.warps, f"{next_warp} warps of {self.team.warps} have a role")

    def _leaf(self, op: Leaf, point: _Point) -> _Point:
        for home in operands(op):
            self._home(home, point)
        for home in reads_registers(op):
            self.require(home.name in point.written, f"{home.name} is read before it is written")
        self._shapes(op)
        self._resolved(evaluated(op), frozenset(name for name, _ in homes(op)))
        return point.with_written(home.name for home in writes_registers(op))

    # ------------------------------------------------------------------ operands

    def _uniform(self, exprs: tuple[Expr, ...], known: plan.Homes, point: _Point) -> None:
        """Conditions and bounds of loops."""
        self._resolved(exprs, frozenset(name for name, _ in known))
        for _, home in known:
            self._home(home, point)

    def _resolved(self, exprs: tuple[Coord, ...], known: frozenset[str]) -> None:
        for read in (read for expr in exprs for read in tile_reads(expr)):
            self.require(read.value.name in known, f"{read.value} has no home")

    def _home(self, home: Home, point: _Point) -> None:
        match home:
            case plan.RegisterTile():
                self._fragment(home.fragment, home.dtype)
                columns = (home.fragment.rows.extent, home.fragment.local_cols, home.fragment.col_parts)
                self._array(home.name, (home.dtype, *columns))
            case plan.StripTile():
                self._strip(home.layout)
                self._array(home.name, (home.dtype, home.layout.passes, home.layout.vector))
            case plan.RowTile():
                self._array(home.name, (home.dtype, home.layout.rows.extent))
            case plan.ScalarHome():
                self._array(home.name, (home.dtype,))
            case SharedRef():
                self._shared(home, point)
            case _:
                assert_never(home)

    def _array(self, name: str, shape: _Array) -> None:
        known = self.arrays.setdefault(name, shape)
        self.require(known == shape, f"register array {name} has two shapes")

    def _fragment(self, fragment: plan.Fragment, dtype: DType) -> None:
        rows, cols, parts = fragment.rows, fragment.cols, fragment.col_parts
        self.require(rows.extent == SLAB_ROWS * self.team.slabs, f"{rows.extent} rows for {self.team.slabs} slabs")
        self.require(parts in (1, self.team.parts), f"columns in {parts} parts")
        width = 2 * TILE_COLS if dtype.is_half else TILE_COLS
        self.require(cols.extent % (parts * width) == 0, f"{cols.extent} columns in {parts} parts of tiles of {width}")

    def _strip(self, strip: plan.Strip) -> None:
        self.require(strip.cols.extent % strip.vector == 0, f"{strip.cols.extent} columns by {strip.vector}")
        self.require(strip.groups * strip.lanes == self.team.threads, f"{strip.groups} groups of {strip.lanes} threads")

    def _shared(self, ref: SharedRef, point: _Point) -> None:
        buffer = ref.buffer
        known = self.buffers.setdefault(buffer.name, buffer)
        self.require(known == buffer, f"buffer {buffer.name} has two layouts")
        self._buffer(buffer)
        self.require(buffer.slots == 1 or point.in_loop, f"ring {buffer.name} is touched outside a loop")
        self.require(
            0 <= ref.ahead < buffer.slots, f"{buffer.name} {ref.ahead} iterations ahead in {buffer.slots} slots"
        )
        if not ref.axes:
            return
        self.require(len(ref.axes) == (1 if buffer.rows == 1 else 2), f"{buffer.name} has {len(ref.axes)} axes")
        n_rows = ref.axes[0].extent if len(ref.axes) == 2 else 1
        fits = ref.row0 + n_rows <= buffer.rows and ref.col0 + ref.axes[-1].extent <= buffer.cols
        self.require(fits, f"a block reaches past {buffer.name}")

    def _buffer(self, buffer: SharedBuffer) -> None:
        """What `loom/layout.cuh` asserts of a tile."""
        self.require(buffer.slots >= 1 and buffer.pitch >= buffer.panel_cols, f"rows of {buffer.name} overlap")
        if buffer.swizzle:
            fits = buffer.pitch * buffer.dtype.n_bytes % (CHUNK_BYTES << buffer.swizzle) == 0
            self.require(fits and buffer.swizzle <= 3, f"{buffer.name} cannot be swizzled by {buffer.swizzle}")

    # ------------------------------------------------------------------ shapes

    def _shapes(self, op: Leaf) -> None:
        match op:
            case plan.CopyIn():
                row_bytes = op.dst.buffer.cols * op.dst.buffer.dtype.n_bytes
                self.require(row_bytes % op.vector_bytes == 0, f"rows of {row_bytes} bytes by {op.vector_bytes}")
                self.require(op.source.dtype is op.dst.buffer.dtype, "a copy converts")
            case plan.LoadFragment():
                self._block_of(op.src, op.dst, op.transposed)
            case plan.StoreFragment():
                self._block_of(op.dst, op.src, op.transposed)
                self.require(not (op.transposed and isinstance(op.src, plan.StripTile)), "a strip is stored transposed")
            case plan.Move():
                self.require(_shape(op.dst.layout) == _shape(op.src.layout), "a move between layouts")
                self.require(op.dst.dtype is op.src.dtype, "a move converts")
            case plan.BoxIn():
                self._panels(op.dst.buffer)
                self.require(op.source.dtype is op.dst.buffer.dtype, "a copy converts")
            case plan.BoxOut():
                self._panels(op.src.buffer)
            case plan.WarpgroupMma():
                self._warpgroup_mma(op)
            case plan.Mma():
                self._mma(op)
            case plan.ExchangeWrite():
                self._exchange(op.src, op.scratch)
            case plan.ExchangeRead():
                self._exchange(op.dst, op.scratch)
            case plan.DiagonalBlocks():
                side = SLAB_ROWS * self.team.slabs
                source, target = (op.src.buffer.rows, op.src.buffer.cols), (op.dst.buffer.rows, op.dst.buffer.cols)
                self.require(source == (side, side), f"{side} rows are inverted, not {source}")
                self.require(target == (side, SLAB_ROWS), f"inverses of {target}")
            case _:
                pass

    def _block_of(self, ref: SharedRef, tile: RegisterTile | plan.StripTile, transposed: bool) -> None:
        shape = (tile.layout.rows.extent, tile.layout.cols.extent)
        given = (ref.axes[0].extent, ref.axes[1].extent)
        self.require(
            given == (shape[::-1] if transposed else shape), f"{tile.name} and {ref.buffer.name} differ in shape"
        )
        self.require(tile.dtype is ref.buffer.dtype, f"{tile.name} and {ref.buffer.name} differ in dtype")

    def _mma(self, op: plan.Mma) -> None:
        acc, a = op.acc.fragment, op.a.fragment
        depth = 16 if op.atom is plan.Atom.M16N8K16 else 8
        self.require(acc.rows.extent == a.rows.extent, "a product's rows differ from its operand's")
        self.require(a.cols.extent == op.over.extent, f"{op.a.name} does not run over {op.over}")
        self.require(a.local_cols % (depth * op.parts) == 0, f"{a.local_cols} steps in {op.parts} parts of {depth}")
        wanted = (op.over.extent, acc.cols.extent) if op.transposed else (acc.cols.extent, op.over.extent)
        given = (op.b.axes[0].extent, op.b.axes[1].extent)
        self.require(given == wanted, f"{op.b.buffer.name} is {given}, not {wanted}")
        self.require(op.acc.dtype is DType.F32, f"{op.acc.name} is not f32")
        self.require(op.a.dtype is op.b.buffer.dtype, "the operands differ in dtype")
        self.require(op.a.dtype.is_half == (depth == 16), f"{op.atom.value} of {op.a.dtype.value}")

    def _panels(self, buffer: SharedBuffer) -> None:
        self.require(buffer.panel_bytes == PANEL_BYTES and buffer.swizzle == 3, f"{buffer.name} does not lie in panels")

    def _warpgroup_mma(self, op: plan.WarpgroupMma) -> None:
        acc, (a, b) = op.acc.fragment, (op.a, op.b)
        self.require(acc.rows.extent % WARPGROUP_ROWS == 0, f"{acc.rows.extent} rows for warpgroups")
        self.require(acc.cols.extent in WARPGROUP_COLS and acc.col_parts == 1, f"{acc.cols.extent} columns")
        for operand, rows in ((a, acc.rows), (b, acc.cols)):
            self._panels(operand.buffer)
            given = (operand.axes[0].extent, operand.axes[1].extent)
            self.require(given == (rows.extent, op.over.extent), f"{operand.buffer.name} is {given}")
        self.require(op.acc.dtype is DType.F32, f"{op.acc.name} is not f32")
        self.require(
            a.buffer.dtype is b.buffer.dtype and a.buffer.dtype.is_half, "operands that are not of one 16-bit type"
        )

    def _exchange(self, tile: RegisterTile | plan.RowTile, scratch: SharedBuffer) -> None:
        self.require(self.team.parts > 1, "an exchange among one part")
        if isinstance(tile, plan.RowTile):
            shape = (self.team.parts, tile.layout.rows.extent)
        else:
            shape = (self.team.warps * tile.fragment.tiles, 4 * plan.WARP_THREADS)
        self.require((scratch.rows, scratch.cols) == shape, f"{scratch.name} is not {shape}")
        self.require(scratch.dtype is DType.F32 and tile.dtype is DType.F32, "partial sums that are not f32")
