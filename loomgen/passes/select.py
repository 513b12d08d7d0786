"""Tile IR -> Plan IR: which threads do what, and where every tile lives.

Before: Tile IR without Inverse, element-wise values fused.
After: a Plan whose operations each have one implementation on the device; its order is the program's, a chunk loop's
copies arrive at the top of the iteration and its copies out leave at the end. No memory is laid out and nothing is
synchronised.

Rules. A product's first index names rows: its accumulator is a fragment whose 16-row slabs are dealt to the warps. Its
first operand is a fragment of the same rows, its second comes from shared memory. Element-wise statements of two
indices run in registers, unless all they read is in shared memory and a product needs them there. A stage without
products holds its tiles in strips of rows. Vectors live in shared memory, or one number a row where a reduction along
the columns leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from typing_extensions import assert_never

from loomgen.errors import InternalError, Span
from loomgen.ir import plan, tile, walk
from loomgen.ir.kernel import KernelSpec
from loomgen.ir.order import M16N8K8, M16N8K16, Order, ReduceOrder
from loomgen.ir.plan import Atom, Plan, PlanOp, RegisterLayout, ScalarHome, ScalarUse, SharedRef, Strip, Team
from loomgen.ir.tile import Program, Stmt
from loomgen.ir.types import Value
from loomgen.passes.boxes import boxed_tiles
from loomgen.passes.fences import fence_updates
from loomgen.passes.gather_exchanges import gather_exchanges
from loomgen.passes.homes import Homes
from loomgen.passes.partition import partition
from loomgen.passes.rings import pipeline_loop
from loomgen.passes.role_arms import role_arm
from loomgen.passes.select_columns import require_columns
from loomgen.passes.select_elements import select_load, select_map, select_reduce, select_scan
from loomgen.passes.select_products import mma_atom, select_concat, select_contract, select_diagonal
from loomgen.passes.select_rules import Rules, reject
from loomgen.passes.select_stores import select_store
from loomgen.passes.stage_names import stage_names
from loomgen.passes.storage import share_registers
from loomgen.passes.team import divide
from loomgen.passes.trace import leaves
from loomgen.spec.codes import Code


def select(kernel: KernelSpec, program: Program) -> Plan:
    boxes = boxed_tiles(program, kernel.schedule)
    if not kernel.schedule.roles:
        return _select(kernel, program, boxes)
    arms: list[plan.RoleArm] = []
    for part in partition(program, kernel.schedule):
        first_warp = sum(arm.team.warps for arm in arms)
        schedule = replace(kernel.schedule, warps=part.role.warps)
        arms.append(role_arm(part.role, first_warp, _select(replace(kernel, schedule=schedule), part.program, boxes)))
    team = Team(slabs=sum(arm.team.warps for arm in arms), parts=1)
    return Plan(team=team, body=(plan.Roles(arms=tuple(arms)),))


def _select(kernel: KernelSpec, program: Program, boxes: Mapping[str, SharedRef]) -> Plan:
    """What one team does; it finds in shared memory what the copy hardware brings."""
    division = divide(kernel, program)
    rules = Rules(
        division=division,
        schedule=kernel.schedule,
        shared_names=_needed_in_shared(program),
        contracted=_contracted(program),
        boxes=boxes,
    )
    homes = Homes(
        division=division,
        storage=share_registers(program),
        ops=[],
        taken=stage_names(program),
        shared=dict(boxes),
    )
    _block(program.body, rules, homes)
    return fence_updates(Plan(team=division.team, body=tuple(homes.ops)))


def sum_orders(kernel: KernelSpec, program: Program, the_plan: Plan) -> dict[str, Order]:
    """The order of every contraction's and reduction's sum, by the value's name."""
    division = divide(kernel, program)
    orders: dict[str, Order] = {}
    for stmt in walk.statements(program.body):
        if isinstance(stmt, tile.Contract):
            split = division.split_of(stmt.over)
            base = M16N8K8 if mma_atom(stmt) is Atom.M16N8K8 else M16N8K16
            orders[stmt.value.name] = replace(base, parts=split.parts if split else 1)
    for leaf in (leaf for op in the_plan.body for leaf in leaves(op)):
        match leaf:
            case plan.ReduceColumns():
                orders[leaf.dst.name] = reduce_order(leaf.layout, leaf.parts)
            case plan.ReduceVector():
                orders[leaf.dst.name] = ReduceOrder(partials=(tuple(range(leaf.over.extent)),))
            case _:
                pass
    return orders


def reduce_order(layout: RegisterLayout, parts: int) -> ReduceOrder:
    """The columns of each thread of a row, in the order in which it holds them; ``parts`` of each warp's share."""
    if isinstance(layout, Strip):
        columns = tuple(tuple(range(lane * layout.vector, (lane + 1) * layout.vector)) for lane in range(layout.lanes))
        return ReduceOrder(partials=columns)
    n_parts = parts * layout.col_parts
    n_tiles = layout.cols.extent // n_parts // 8
    quads = (
        tuple(8 * t + 2 * q + c for t in range(part * n_tiles, (part + 1) * n_tiles) for c in (0, 1))
        for part in range(n_parts)
        for q in range(4)
    )
    return ReduceOrder(partials=tuple(quads), parts=n_parts)


def _needed_in_shared(program: Program) -> frozenset[str]:
    """Values that some statement can only take from shared memory."""
    names: set[str] = set()
    for stmt in walk.statements(program.body):
        match stmt:
            case tile.Contract():
                names.add(stmt.b.value.name)
            case tile.DiagonalInverse():
                names.add(stmt.source.value.name)
            case _:
                pass
    return frozenset(names)


def _contracted(program: Program) -> frozenset[tuple[str, str]]:
    """The first operands of products, each with the index of its own that is contracted."""
    products = (stmt for stmt in walk.statements(program.body) if isinstance(stmt, tile.Contract))
    return frozenset(
        (stmt.a.value.name, index.name)
        for stmt in products
        for index, sub in zip(stmt.a.value.indices, stmt.a.subs, strict=True)
        if sub.index == stmt.over
    )


def _block(statements: tuple[Stmt, ...], rules: Rules, homes: Homes) -> None:
    for stmt in statements:
        _statement(stmt, rules, homes)
    homes.ops[:] = gather_exchanges(homes.ops)


def _statement(stmt: Stmt, rules: Rules, homes: Homes) -> None:
    n_before = len(homes.ops)
    match stmt:
        case tile.Load():
            select_load(stmt, rules, homes)
        case tile.Map():
            select_map(stmt.value, stmt.expr, stmt, rules, homes)
        case tile.Contract():
            select_contract(stmt, rules, homes)
        case tile.Reduce():
            select_reduce(stmt, rules, homes)
        case tile.Scan():
            select_scan(stmt, homes)
        case tile.DiagonalInverse():
            select_diagonal(stmt, homes)
        case tile.Concat():
            select_concat(stmt, homes)
        case tile.Store():
            select_store(stmt, rules, homes)
        case tile.ForWindow():
            _chunk_loop(stmt, rules, homes)
        case tile.ForRange():
            _range_loop(stmt, rules, homes)
        case tile.If():
            _branch(stmt, rules, homes)
        case tile.Inverse():
            raise InternalError("select", "an inverse was not lowered")
        case _:
            assert_never(stmt)
    require_columns(stmt, homes.ops[n_before:])


# --------------------------------------------------------------------------- control


def _chunk_loop(stmt: tile.ForWindow, rules: Rules, homes: Homes) -> None:
    body = _loop_body(stmt, rules, homes)
    homes.ops.extend(pipeline_loop(stmt, body, rules.schedule))


def _range_loop(stmt: tile.ForRange, rules: Rules, homes: Homes) -> None:
    found = (*homes.resolve(stmt.begin, None, stmt.text), *homes.resolve(stmt.end, None, stmt.text))
    body = _loop_body(stmt, rules, homes)
    homes.ops.append(
        plan.RangeLoop(name=stmt.name, begin=stmt.begin, end=stmt.end, homes=found, body=body, text=stmt.text)
    )


def _loop_body(stmt: tile.ForWindow | tile.ForRange, rules: Rules, homes: Homes) -> tuple[PlanOp, ...]:
    """The operations of an iteration; carried values are taken over before, at the end of, and after it."""
    for carry in stmt.carried:
        _take_over(carry.init, carry.inner, homes, homes, ScalarUse.VARIABLE, stmt.span)
    inner = homes.nested()
    _block(stmt.body, rules, inner)
    for carry in stmt.carried:
        _take_over(carry.update, carry.inner, inner, homes, ScalarUse.ASSIGNMENT, stmt.span)
        _rename(carry.inner, carry.result, homes)
    return tuple(inner.ops)


def _branch(stmt: tile.If, rules: Rules, homes: Homes) -> None:
    found = homes.resolve(stmt.cond, None, stmt.text)
    for merge in stmt.merges:
        if not merge.result.indices:
            _declare_scalar(merge.result, stmt, homes)
    arms: list[tuple[PlanOp, ...]] = []
    for body, is_then in ((stmt.then, True), (stmt.orelse, False)):
        arm = homes.nested()
        _block(body, rules, arm)
        for merge in stmt.merges:
            source = merge.then if is_then else merge.orelse
            _take_over(source, merge.result, arm, homes, ScalarUse.ASSIGNMENT, stmt.span)
        arms.append(tuple(arm.ops))
    branch = plan.Conditional(cond=stmt.cond, homes=found, then=arms[0], orelse=arms[1], text=stmt.text)
    homes.ops.append(branch)


def _declare_scalar(value: Value, stmt: tile.If, homes: Homes) -> None:
    """A merged scalar's variable, before the branch that assigns it."""
    zero = tile.Const(value=0, dtype=value.dtype, span=stmt.span)
    home = ScalarHome(name=value.name, dtype=value.dtype)
    homes.ops.append(plan.MapScalar(dst=home, expr=zero, homes=(), use=ScalarUse.VARIABLE, text=stmt.text))


def _take_over(source: Value, target: Value, at: Homes, target_homes: Homes, use: ScalarUse, span: Span) -> None:
    """The target's variable holds the source from here on; a register copy where they do not share one."""
    if not source.indices:
        home = ScalarHome(name=target.name, dtype=target.dtype)
        read = tile.TileRead(value=source, subs=(), span=span)
        found = ((source.name, at.scalars[source.name]),)
        at.ops.append(plan.MapScalar(dst=home, expr=read, homes=found, use=use, text=""))
        target_homes.scalars[target.name] = home
        return
    if len(source.indices) == 1:
        raise reject(
            span, Code.CARRIED_VECTOR, f"{source}: a vector cannot be carried or merged", "give it a second index"
        )
    letter = target_homes.known_row_letter(target) or at.row_letter(source)
    src = at.tile(source, letter, "")
    dst = target_homes.define_register(target, letter)
    if src.name != dst.name:
        at.ops.append(plan.Move(dst=dst, src=src, text=""))


def _rename(inner: Value, result: Value, homes: Homes) -> None:
    """After a loop the result is what the carried variable holds."""
    if not inner.indices:
        homes.scalars[result.name] = homes.scalars[inner.name]
        return
    letter = homes.row_letter(inner)
    homes.registers[result.name, letter.name] = homes.registers[inner.name, letter.name]
