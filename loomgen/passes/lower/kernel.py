"""A whole kernel: its head, then the plan's operations in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from typing_extensions import assert_never

from loomgen.errors import InternalError
from loomgen.ir import device, plan, tile
from loomgen.ir.device import (
    Blank,
    Braces,
    Branch,
    CExpr,
    Comment,
    CStmt,
    Declare,
    DeclareArray,
    Do,
    For,
    Infix,
    Ternary,
    add,
    call,
    name,
    num,
)
from loomgen.ir.plan import (
    Leaf,
    Plan,
    PlanOp,
    RegisterTile,
    RowTile,
    Scope,
    SharedBuffer,
    SharedLayout,
    SharedRef,
    StripTile,
)
from loomgen.ir.tile import Window
from loomgen.ir.types import DType
from loomgen.passes.lower.equations import equations
from loomgen.passes.lower.identifiers import with_identifiers
from loomgen.passes.lower.layouts import walk_of
from loomgen.passes.lower.leaf import lower_leaf
from loomgen.passes.lower.maps import MapContext
from loomgen.passes.lower.names import THREAD, WARP, Naming, c_type
from loomgen.passes.lower.prologue import prologue, role_thread, where_names
from loomgen.passes.lower.roles import arm_registers, rings_of, turn_rings
from loomgen.passes.lower.sink import sink
from loomgen.passes.lower.statics import static
from loomgen.passes.lower.windows import WindowNames, WindowScope, grid_window, loop_window
from loomgen.passes.role_arms import arms
from loomgen.passes.stage_names import own_names, stage_names
from loomgen.passes.trace import leaves
from loomgen.target.registers import launch_registers

_OverChunks = plan.ChunkLoop | plan.Preload | plan.Prefetch


def lower_body(program: tile.Program, the_plan: Plan, layout: SharedLayout) -> tuple[CStmt, ...]:
    """The statements between the kernel's braces."""
    naming = Naming(taken=own_names(program))
    windows = WindowScope()
    for axis in program.grid:
        if axis.window is not None:
            windows = windows.with_window(axis.window.name, grid_window(axis.window))
    context = MapContext(team=the_plan.team, windows=windows, naming=naming, block_barrier=call("sync_block"))
    declared, where = where_names(program, context)
    work = tuple(_Block(context=replace(context, where=where)).statements(the_plan.body))
    for constant in reversed(declared):
        work = sink(constant, work)
    body = (*prologue(program, the_plan.team, layout, naming, has_roles=bool(arms(the_plan))), *work)
    return with_identifiers(body, stage_names(program))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Lowers one block; ``declared`` are the register arrays that outer blocks hold."""

    context: MapContext
    declared: frozenset[str] = frozenset()

    def statements(self, ops: tuple[PlanOp, ...]) -> list[CStmt]:
        out: list[CStmt] = []
        text = ""
        known = set(self.declared)
        phases = equations(ops, self.context.naming)
        for at, op in enumerate(ops):
            statement = _statement_text(ops[at:])
            if statement and statement != text:
                out += [Blank(), Comment(text=statement, statement=True)]
                text = statement
            out += [Comment(text=line) for line in phases.get(at, ())]
            cleared = frozenset[str]()
            for array in _shared_here(op, ops[at + 1 :]):
                if array.name in known:
                    continue
                known.add(array.name)
                if _starts_from_zero(op) and array in _written(op):
                    cleared |= {array.name}
                out.append(_declare(array, self.context, is_cleared=array.name in cleared))
            if isinstance(op, plan.ChunkLoop | plan.Preload) and _is_first(op, ops[:at]):
                out += self._open_window(op.window)
            lowered = replace(self, declared=frozenset(known))._operation(_without_clearing(op) if cleared else op)
            out += _apart(op, [stmt for stmt in lowered if not _is_constant(stmt) or stmt not in out], _variables(out))
        return out[1:] if out and isinstance(out[0], Blank) else out

    def _operation(self, op: PlanOp | None) -> list[CStmt]:
        match op:
            case None:
                return []
            case plan.ChunkLoop():
                return [self._chunk_loop(op)]
            case plan.RangeLoop():
                begin, end = (self.context.uniform(bound, op.homes) for bound in (op.begin, op.end))
                body = (*turn_rings(op, self.context), *self.statements(op.body))
                return [For(var=op.name, begin=begin, end=end, unroll=False, body=body)]
            case plan.Preload():
                return self._preload(op)
            case plan.Prefetch():
                return self._prefetch(op)
            case plan.Conditional():
                then, orelse = tuple(self.statements(op.then)), tuple(self.statements(op.orelse))
                return [Branch(cond=self.context.uniform(op.cond, op.homes), then=then, orelse=orelse)]
            case plan.Roles():
                return [self._roles(op)]
            case plan.Barrier():
                meet = self.context.block_barrier if op.scope is Scope.BLOCK else call("sync_warp")
                return [Do(call=meet, remark=op.reason)]
            case plan.Wait():
                return [Do(call=call(f"cp_async_wait<{op.pending}>"), remark=op.reason)]
            case _:
                return lower_leaf(op, self.context)

    # ------------------------------------------------------------------ roles

    def _roles(self, op: plan.Roles) -> CStmt:
        """Each warp takes its role's arm."""
        n_threads = sum(arm.team.threads for arm in op.arms)
        bodies = [self._arm(arm, number, n_threads) for number, arm in enumerate(op.arms)]
        arms = list(zip(op.arms, bodies, strict=True))
        last: tuple[CStmt, ...] = arms[-1][1]
        for arm, body in reversed(arms[:-1]):
            is_its = Infix(op="<", a=WARP, b=num(arm.first_warp + arm.team.warps))
            last = (Branch(cond=is_its, then=body, orelse=last),)
        return last[0] if len(last) == 1 else device.Scope(body=last)

    def _arm(self, arm: plan.RoleArm, number: int, n_threads: int) -> tuple[CStmt, ...]:
        """The role's own threads and barrier; barrier 0 is the block's."""
        meet = call("sync_named", num(number + 1), num(arm.team.threads))
        context = replace(self.context, team=arm.team, block_barrier=meet, rings=rings_of(arm.body))
        work = tuple(_Block(context=context).statements(arm.body))
        if arm.is_single:
            work = (Branch(cond=Infix(op="==", a=THREAD, b=num(0)), then=work),)
        head = Comment(text=f"role {arm.name}: warps {arm.first_warp} .. {arm.first_warp + arm.team.warps - 1}")
        registers = arm_registers(arm, launch_registers(n_threads))
        return (head, *registers, *role_thread(arm.team, arm.first_warp), Blank(), *work)

    # ------------------------------------------------------------------ chunk loops

    def _parent(self, window: Window) -> WindowNames:
        found = self.context.windows.find(window.parent or "")
        if found is None:
            raise InternalError("lower", f"the sequence of {window.name} is not in scope")
        return found

    def _open_window(self, window: Window) -> list[CStmt]:
        """The number of chunks, and the ordinal of the first one in the batch."""
        extent = static(window.symbol, window.extent)
        filled = Infix(op="-", a=add(self._parent(window).length, extent), b=num(1))
        rounded = Infix(op="/", a=filled, b=extent)
        first = call("ld_global", add(name("seq_chunk_start"), name(window.parent or "")))
        return [
            Declare(type="const int", name=f"{window.name}$count", init=rounded),
            Declare(type="const int", name=f"{window.name}$first", init=first),
        ]

    def _bind(self, loop: _OverChunks, prefix: str, iteration: CExpr) -> tuple[MapContext, list[CStmt]]:
        """The context in which the loop's window is an iteration's, and that window's variables."""
        window, parent = loop.window, self._parent(loop.window)
        place = name(f"{prefix}$chunk") if loop.is_reversed else iteration
        names = loop_window(window, parent, prefix, place)
        left = parent.length if names.pos == num(0) else Infix(op="-", a=parent.length, b=names.pos)
        extent = static(window.symbol, window.extent)
        length = Ternary(cond=Infix(op="<", a=left, b=extent), then=left, orelse=extent)
        variables: list[CStmt] = [
            *_from_the_end(loop, prefix, iteration),
            Declare(type="const int", name=f"{prefix}$start", init=add(parent.start, names.pos)),
            Declare(type="const int", name=f"{prefix}$len", init=length),
        ]
        return replace(self.context, windows=self.context.windows.with_window(window.name, names)), variables

    def _chunk_loop(self, op: plan.ChunkLoop) -> CStmt:
        iteration = f"{op.window.name}$it"
        context, variables = self._bind(op, op.window.name, name(iteration))
        body = (
            *variables,
            *self._slots(_rings(op.body), name(iteration), 0),
            *_Block(context=context, declared=self.declared).statements(op.body),
        )
        return For(var=iteration, begin=num(0), end=name(f"{op.window.name}$count"), unroll=False, body=body)

    def _slots(self, rings: list[SharedBuffer], iteration: CExpr, ahead: int) -> list[CStmt]:
        """The rings' tiles of an iteration."""
        out: list[CStmt] = []
        for ring in rings:
            slot = iteration if iteration == num(0) else Infix(op="%", a=iteration, b=num(ring.slots))
            ref = SharedRef(buffer=ring, axes=(), ahead=ahead)
            at = call(f"{self.context.naming.ring(ring.name)}.at_slot", slot)
            out.append(Declare(type="const auto", name=self.context.naming.tile(ref), init=at))
        return out

    def _preload(self, op: plan.Preload) -> list[CStmt]:
        """The first iterations' copies, one group an iteration whether it exists or not."""
        is_single = op.count == 1
        at = num(0) if is_single else name(f"{op.window.name}$it")
        context, variables = self._bind(op, op.window.name, at)
        copies = self._copies(op.copies, context, variables, at, 0)
        exists = Branch(cond=Infix(op="<", a=at, b=name(f"{op.window.name}$count")), then=tuple(copies))
        body = (exists, Do(call=call("cp_async_commit")))
        if is_single:
            return list(body)
        return [For(var=f"{op.window.name}$it", begin=num(0), end=num(op.count), unroll=True, body=body)]

    def _prefetch(self, op: plan.Prefetch) -> list[CStmt]:
        count = name(f"{op.window.name}$count")
        context, variables = self._bind(op, "$next", name("$next_it"))
        later = Declare(type="const int", name="$next_it", init=add(name(f"{op.window.name}$it"), num(op.ahead)))
        copies = self._copies(op.copies, context, variables, name("$next_it"), op.ahead)
        return [later, Branch(cond=Infix(op="<", a=name("$next_it"), b=count), then=tuple(copies))]

    def _copies(
        self, copies: tuple[plan.CopyIn, ...], context: MapContext, variables: list[CStmt], at: CExpr, ahead: int
    ) -> list[CStmt]:
        out = [*variables, *self._slots([copy.dst.buffer for copy in copies], at, ahead)]
        for copy in copies:
            out += [Comment(text=copy.text, statement=True), *lower_leaf(copy, context)]
        return out


def _from_the_end(loop: _OverChunks, prefix: str, iteration: CExpr) -> list[CStmt]:
    """The place in its sequence of an iteration's chunk, where the last one comes first."""
    if not loop.is_reversed:
        return []
    last = Infix(op="-", a=name(f"{loop.window.name}$count"), b=num(1))
    place = last if iteration == num(0) else Infix(op="-", a=last, b=iteration)
    return [Declare(type="const int", name=f"{prefix}$chunk", init=place)]


# --------------------------------------------------------------------------- register arrays


def _shared_here(op: PlanOp, later: tuple[PlanOp, ...]) -> Iterator[RegisterTile | StripTile]:
    """Arrays that belong to this block: the operation itself touches them, or later ones of the block do, too."""
    afterwards = {array.name for other in later for leaf in leaves(other) for array in register_tiles(leaf)}
    for leaf in leaves(op):
        for array in register_tiles(leaf):
            if leaf is op or array.name in afterwards:
                yield array


def register_tiles(op: Leaf) -> tuple[RegisterTile | StripTile, ...]:
    """The register arrays that an operation touches."""
    match op:
        case plan.StoreDirect() | plan.StoreFragment():
            return (op.src,)
        case plan.ExchangeWrite():
            return () if isinstance(op.src, RowTile) else (op.src,)
        case plan.ExchangeRead():
            return () if isinstance(op.dst, RowTile) else (op.dst,)
        case plan.LoadFragment() | plan.LoadStrip():
            return (op.dst,)
        case plan.Move():
            return (op.src, op.dst)
        case plan.MapFragment():
            return (*_register_homes(op.homes), op.dst)
        case plan.ReduceColumns():
            return _register_homes(op.homes)
        case plan.Mma():
            return (op.a, op.acc)
        case plan.WarpgroupMma():
            return (op.acc,)
        case (
            plan.CopyIn()
            | plan.CopyOut()
            | plan.StoreScalars()
            | plan.MapShared()
            | plan.MapScalar()
            | plan.MapRows()
            | plan.ReduceVector()
            | plan.ScanVector()
            | plan.StoreRows()
            | plan.DiagonalBlocks()
            | plan.BoxIn()
            | plan.BoxOut()
            | plan.Synchronisation()
        ):
            return ()
        case _:
            assert_never(op)


def _register_homes(homes: plan.Homes) -> tuple[RegisterTile | StripTile, ...]:
    return tuple(home for _, home in homes if isinstance(home, RegisterTile | StripTile))


def _declare(array: RegisterTile | StripTile, context: MapContext, *, is_cleared: bool) -> CStmt:
    extents = walk_of(array.layout, context.team).extents(array.dtype)
    is_packed = array.dtype.is_half or array.dtype is DType.TF32
    base = "uint32_t" if is_packed else c_type(array.dtype)
    init = Braces(items=()) if is_cleared else None
    return DeclareArray(type=base, name=context.naming.local(array.name), extents=extents, init=init)


def _starts_from_zero(op: PlanOp) -> bool:
    """The operation's result array holds zeros first: the sum of a product without a seed, or the constant itself."""
    match op:
        case plan.Mma() | plan.WarpgroupMma():
            return not op.seeded
        case plan.MapFragment(expr=tile.Const(value=value)):
            return value == 0
        case _:
            return False


def _variables(stmts: Sequence[CStmt]) -> set[str]:
    return {stmt.name for stmt in stmts if isinstance(stmt, Declare | DeclareArray)}


def _apart(op: PlanOp, stmts: list[CStmt], taken: set[str]) -> list[CStmt]:
    """The statements of an operation in a scope of their own, where the block has other variables of these names; the
    variable of a value that later operations read stays outside.
    """
    n_kept = int(isinstance(op, plan.MapScalar | plan.MapRows | plan.ReduceColumns | plan.ReduceVector))
    if not _variables(stmts[n_kept:]) & taken:
        return stmts
    return [*stmts[:n_kept], device.Scope(body=tuple(stmts[n_kept:]))]


def _is_constant(stmt: CStmt) -> bool:
    """A declaration that another statement of the block may repeat: a tile's element, read once for both."""
    return isinstance(stmt, Declare | DeclareArray) and stmt.type.startswith("const ")


def _written(op: PlanOp) -> tuple[RegisterTile | StripTile, ...]:
    match op:
        case plan.Mma() | plan.WarpgroupMma():
            return (op.acc,)
        case plan.MapFragment():
            return (op.dst,)
        case _:
            return ()


def _without_clearing(op: PlanOp) -> PlanOp | None:
    """The operation on an array that was declared as zeros; None if that was all."""
    return replace(op, seeded=True) if isinstance(op, plan.Mma | plan.WarpgroupMma) else None


def _statement_text(ops: tuple[PlanOp, ...]) -> str:
    """The statement that the first operation serves; synchronisation serves the operation after it."""
    for op in ops:
        if not isinstance(op, plan.Wait | plan.Barrier | plan.MmaWait | plan.BoxWait | plan.ProxyFence):
            return getattr(op, "text", "")
    return ""


def _is_first(op: plan.ChunkLoop | plan.Preload, earlier: tuple[PlanOp, ...]) -> bool:
    return not any(isinstance(other, plan.ChunkLoop | plan.Preload) and other.window == op.window for other in earlier)


def _rings(ops: tuple[PlanOp, ...]) -> list[SharedBuffer]:
    """The rings that a loop's iterations use, in the order of their copies."""
    found: dict[SharedBuffer, None] = {}
    for op in ops:
        for leaf in leaves(op):
            if isinstance(leaf, plan.Arrive):
                found.update(dict.fromkeys(ref.buffer for ref in leaf.refs if ref.buffer.slots > 1))
    return list(found)
