"""What each operation of a plan reads and writes, by where it lies."""

from __future__ import annotations

from typing_extensions import assert_never

from loomgen.ir import plan
from loomgen.ir.plan import Home, Homes, Leaf, PlanOp, RegisterTile, RowTile, ScalarHome, SharedRef, StripTile
from loomgen.ir.tile import Coord
from loomgen.passes.trace import leaves

Registers = RegisterTile | StripTile | RowTile | ScalarHome


def operands(op: Leaf) -> tuple[Home, ...]:
    """Everything that the operation names, what it writes first."""
    return (*_own(op), *(home for _, home in homes(op)))


def _own(op: Leaf) -> tuple[Home, ...]:
    match op:
        case plan.CopyOut() | plan.BoxOut() | plan.StoreDirect() | plan.StoreScalars():
            return (op.src,)
        case plan.LoadFragment() | plan.StoreFragment() | plan.StoreRows() | plan.Move():
            return (op.dst, op.src)
        case plan.ScanVector() | plan.DiagonalBlocks():
            return (op.dst, op.src)
        case plan.CopyIn() | plan.BoxIn() | plan.LoadStrip():
            return (op.dst,)
        case plan.MapFragment() | plan.MapShared() | plan.MapRows():
            return (op.dst,)
        case plan.MapScalar() | plan.ReduceColumns() | plan.ReduceVector():
            return (op.dst,)
        case plan.Mma() | plan.WarpgroupMma():
            return (op.acc, op.a, op.b)
        case plan.ExchangeWrite():
            return (SharedRef(buffer=op.scratch, axes=()), op.src)
        case plan.ExchangeRead():
            return (op.dst, SharedRef(buffer=op.scratch, axes=()))
        case plan.Arrive():
            return op.refs
        case plan.Synchronisation():
            return ()
        case _:
            assert_never(op)


def homes(op: Leaf) -> Homes:
    """Where the tiles of the operation's expressions live."""
    match op:
        case plan.CopyIn() | plan.CopyOut() | plan.LoadStrip() | plan.StoreDirect() | plan.StoreScalars():
            return op.homes
        case plan.BoxIn() | plan.BoxOut():
            return op.homes
        case plan.MapFragment() | plan.MapShared() | plan.MapRows() | plan.MapScalar():
            return op.homes
        case plan.ReduceColumns() | plan.ReduceVector():
            return op.homes
        case (
            plan.LoadFragment()
            | plan.StoreFragment()
            | plan.StoreRows()
            | plan.Move()
            | plan.ScanVector()
            | plan.Mma()
            | plan.WarpgroupMma()
            | plan.ExchangeWrite()
            | plan.ExchangeRead()
            | plan.DiagonalBlocks()
            | plan.Synchronisation()
        ):
            return ()
        case _:
            assert_never(op)


def evaluated(op: Leaf) -> tuple[Coord, ...]:
    """The Tile IR expressions that the operation carries out, coordinates included."""
    match op:
        case plan.CopyIn() | plan.BoxIn() | plan.LoadStrip():
            return (op.source,)
        case plan.CopyOut() | plan.BoxOut() | plan.StoreDirect() | plan.StoreScalars():
            return op.coords
        case plan.MapFragment() | plan.MapShared() | plan.MapRows() | plan.MapScalar():
            return (op.expr,)
        case plan.ReduceColumns() | plan.ReduceVector():
            return (op.expr,)
        case (
            plan.LoadFragment()
            | plan.StoreFragment()
            | plan.StoreRows()
            | plan.Move()
            | plan.ScanVector()
            | plan.Mma()
            | plan.WarpgroupMma()
            | plan.ExchangeWrite()
            | plan.ExchangeRead()
            | plan.DiagonalBlocks()
            | plan.Synchronisation()
        ):
            return ()
        case _:
            assert_never(op)


def touched_registers(op: PlanOp) -> frozenset[str]:
    """The register arrays and scalars that the operation, or one inside it, names."""
    homes = (home for leaf in leaves(op) for home in operands(leaf))
    return frozenset(home.name for home in homes if not isinstance(home, SharedRef))


def shared_refs(op: Leaf) -> tuple[SharedRef, ...]:
    return tuple(home for home in operands(op) if isinstance(home, SharedRef))


def writes_registers(op: Leaf) -> tuple[Registers, ...]:
    match op:
        case plan.LoadStrip() | plan.LoadFragment() | plan.Move() | plan.ExchangeRead():
            return (op.dst,)
        case plan.MapFragment() | plan.MapRows() | plan.MapScalar() | plan.ReduceColumns() | plan.ReduceVector():
            return (op.dst,)
        case plan.Mma() | plan.WarpgroupMma():
            return (op.acc,)
        case (
            plan.CopyIn()
            | plan.CopyOut()
            | plan.BoxIn()
            | plan.BoxOut()
            | plan.StoreDirect()
            | plan.StoreScalars()
            | plan.StoreFragment()
            | plan.StoreRows()
            | plan.MapShared()
            | plan.ScanVector()
            | plan.ExchangeWrite()
            | plan.DiagonalBlocks()
            | plan.Synchronisation()
        ):
            return ()
        case _:
            assert_never(op)


def reads_registers(op: Leaf) -> tuple[Registers, ...]:
    """An accumulator is read where its sum is seeded, partial sums where the others' are added to them."""
    written = writes_registers(op)
    used = [home for home in operands(op) if not isinstance(home, SharedRef)]
    match op:
        case plan.Mma():
            return (op.a, op.acc) if op.seeded else (op.a,)
        case plan.WarpgroupMma():
            return (op.acc,) if op.seeded else ()
        case plan.ExchangeRead():
            return (op.dst,)
        case _:
            return tuple(used[len(written) :])
