"""Determinism check: a kernel's result is a function of its inputs alone.

Holds of every kernel: each sum has one recorded order, made of static extents and thread numbers inside a block,
never of the grid, the batch or the device; nothing is added in memory (no node of either IR does so); partial sums of
several warps are added in part order on every one of them. Every kind of node is classified here by name: a new kind
stops the type checker, and this pass, until it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from typing_extensions import assert_never

from loomgen.errors import InternalError
from loomgen.ir import plan, tile, walk
from loomgen.ir.order import M16N8K8, M16N8K16, ContractOrder, Order, ReduceOrder
from loomgen.ir.plan import Leaf, Plan, PlanOp
from loomgen.ir.tile import Contract, Coord, Program, Reduce, ReduceOp, Stmt
from loomgen.passes.operands import touched_registers

PASS = "determinism"
_MAX_EXCHANGED_PARTS = 2
"""Two partial sums: what a warp adds to its own is the other's, and a + b is b + a."""


def check_determinism(program: Program, kernel: Plan, orders: Mapping[str, Order]) -> None:
    """Raises InternalError naming the sum that has no order, or another than the recorded one."""
    for stmt in walk.statements(program.body):
        for expr in walk.expressions(stmt):
            _check_expression(expr)
        _check_statement(stmt, orders)
    _check_products(program, kernel, orders)
    for body in _bodies(kernel.body):
        _check_exchanges(body, kernel)


def _fail(message: str) -> InternalError:
    return InternalError(PASS, message)


# --------------------------------------------------------------------------- Tile IR


def _check_statement(stmt: Stmt, orders: Mapping[str, Order]) -> None:
    match stmt:
        case tile.Load() | tile.Map() | tile.Store() | tile.Concat():
            pass  # element by element
        case tile.Scan() | tile.DiagonalInverse():
            pass  # ascending, or descending, along one letter in one thread
        case tile.ForWindow() | tile.ForRange() | tile.If():
            pass  # iterations in order; a branch of the whole block
        case Contract():
            _check_contract(stmt, orders.get(stmt.value.name))
        case Reduce():
            _check_reduce(stmt, orders.get(stmt.value.name))
        case tile.Inverse():
            raise _fail(f"{stmt.value} is inverted in no order: {stmt.text!r}")
        case _:
            assert_never(stmt)


def _check_contract(stmt: Contract, order: Order | None) -> None:
    if not isinstance(order, ContractOrder):
        raise _fail(f"product {stmt.value} has no order: {stmt.text!r}")
    if sorted(order.slots) != list(range(order.block)) or stmt.over.extent % (order.block * order.parts):
        raise _fail(f"the order of {stmt.value} does not cover {stmt.over}, {stmt.over.extent} elements")


def _check_reduce(stmt: Reduce, order: Order | None) -> None:
    if not isinstance(order, ReduceOrder):
        raise _fail(f"reduction {stmt.value} has no order: {stmt.text!r}")
    n_elements = 1
    for index in stmt.over:
        n_elements *= index.extent
    if sorted(element for partial in order.partials for element in partial) != list(range(n_elements)):
        raise _fail(f"the order of {stmt.value} does not take each of {n_elements} elements once")
    n_partials, rest = divmod(len(order.partials), order.parts)
    if rest or n_partials & (n_partials - 1):
        raise _fail(f"{len(order.partials)} partial results of {stmt.value} do not combine in pairs")


def _check_expression(root: Coord) -> None:
    for node in walk.nodes(root):
        match node:
            case tile.TileRead() | tile.TensorRead() | tile.WindowCoord():
                pass  # memory that no thread of another block writes
            case tile.Const() | tile.ArgRead() | tile.IndexRead() | tile.Given():
                pass  # inputs
            case tile.GridRead() | tile.WindowRead():
                pass  # which element is computed, never how
            case tile.Unary() | tile.Binary() | tile.Call() | tile.Select() | tile.Cast():
                pass  # one element's arithmetic, in the order of the tree
            case _:
                assert_never(node)


# --------------------------------------------------------------------------- Plan IR


def _check_products(program: Program, kernel: Plan, orders: Mapping[str, Order]) -> None:
    """Each product is carried out as its order says; selection keeps products in the program's order."""
    contracts = [stmt for stmt in walk.statements(program.body) if isinstance(stmt, Contract)]
    products = [op for op in _leaves(kernel.body) if isinstance(op, plan.Mma | plan.WarpgroupMma)]
    if len(contracts) != len(products):
        raise _fail(f"{len(contracts)} products are carried out by {len(products)} operations")
    for stmt, op in zip(contracts, products, strict=True):
        order = orders[stmt.value.name]
        if order != _carried_out(op):
            raise _fail(f"{stmt.value} is not summed in its recorded order: {stmt.text!r}")


def _carried_out(op: plan.Mma | plan.WarpgroupMma) -> ContractOrder:
    if isinstance(op, plan.WarpgroupMma):
        return M16N8K16
    base = M16N8K16 if op.atom is plan.Atom.M16N8K16 else M16N8K8
    return ContractOrder(block=base.block, slots=base.slots, parts=op.parts * op.a.fragment.col_parts)


def _check_exchanges(body: tuple[PlanOp, ...], kernel: Plan) -> None:
    """What is reduced along an index that warps share is exchanged before anything else touches it."""
    beside = plan.Synchronisation | plan.Prefetch
    ops = [op for op in body if not isinstance(op, beside)]
    for at, op in enumerate(ops):
        match op:
            case plan.Mma() if op.a.fragment.col_parts > 1:
                if not _is_exchanged(op.acc, ReduceOp.SUM, ops[at + 1 :]):
                    raise _fail(f"the parts of {op.acc.name} are not added: {op.text!r}")
            case plan.ReduceColumns(layout=plan.Fragment(col_parts=parts)) if parts > 1:
                if not _is_exchanged(op.dst, op.op, ops[at + 1 :]):
                    raise _fail(f"the parts of {op.dst.name} are not combined: {op.text!r}")
            case plan.ExchangeRead() if kernel.team.parts > _MAX_EXCHANGED_PARTS:
                raise _fail(f"{kernel.team.parts} parts of {op.dst.name} are exchanged in no order")
            case plan.ChunkLoop() | plan.RangeLoop() | plan.Preload() | plan.Prefetch():
                pass
            case plan.Conditional() | plan.Roles():
                pass
            case _:
                _check_leaf(op)


def _is_exchanged(partial: plan.RegisterTile | plan.RowTile, op: ReduceOp, later: Sequence[PlanOp]) -> bool:
    touching = (each for each in later if partial.name in touched_registers(each))
    match tuple(islice(touching, 2)):
        case (plan.ExchangeWrite() as write, plan.ExchangeRead() as read):
            return read.scratch == write.scratch and read.op is op
        case _:
            return False


def _check_leaf(op: Leaf) -> None:
    """Every kind of operation, by what makes it deterministic."""
    match op:
        case plan.CopyIn() | plan.CopyOut() | plan.LoadStrip() | plan.LoadFragment() | plan.StoreFragment():
            pass  # moves bits
        case plan.BoxIn() | plan.BoxOut():
            pass  # moves bits
        case plan.StoreDirect() | plan.StoreScalars() | plan.StoreRows() | plan.Move():
            pass  # moves bits; a tensor's element has one owner
        case plan.MapFragment() | plan.MapShared() | plan.MapRows() | plan.MapScalar():
            pass  # element by element
        case plan.ReduceColumns() | plan.ReduceVector() | plan.ScanVector() | plan.DiagonalBlocks():
            pass  # an order fixed by the operation, recorded by the value's name where it has a choice
        case plan.Mma() | plan.WarpgroupMma() | plan.ExchangeWrite() | plan.ExchangeRead():
            pass  # checked with their products
        case plan.Synchronisation():
            pass  # orders memory, computes nothing
        case _:
            assert_never(op)


def _bodies(ops: tuple[PlanOp, ...]) -> Iterator[tuple[PlanOp, ...]]:
    """The block and every block inside."""
    yield ops
    for op in ops:
        match op:
            case plan.ChunkLoop() | plan.RangeLoop():
                yield from _bodies(op.body)
            case plan.Conditional():
                yield from _bodies(op.then)
                yield from _bodies(op.orelse)
            case plan.Roles():
                for arm in op.arms:
                    yield from _bodies(arm.body)
            case _:
                pass


def _leaves(ops: tuple[PlanOp, ...]) -> Iterator[PlanOp]:
    """Operations in the order of the program."""
    for op in ops:
        match op:
            case plan.ChunkLoop() | plan.RangeLoop():
                yield from _leaves(op.body)
            case plan.Conditional():
                yield from _leaves((*op.then, *op.orelse))
            case plan.Roles():
                for arm in op.arms:
                    yield from _leaves(arm.body)
            case _:
                yield op
