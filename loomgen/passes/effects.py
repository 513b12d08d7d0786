"""What each operation reads and writes in shared memory, thread by thread."""

from __future__ import annotations

from dataclasses import dataclass, replace

from typing_extensions import assert_never

from loomgen.ir import plan
from loomgen.ir.plan import Homes, Leaf, SharedBuffer, SharedRef, Team
from loomgen.ir.tile import Expr, TileRead
from loomgen.ir.types import Index
from loomgen.ir.walk import tile_reads
from loomgen.passes.footprints import (
    WORD_BYTES,
    Footprint,
    Letters,
    by_first_thread,
    chunks,
    copied_out,
    dealt_letters,
    diagonal_reads,
    diagonal_writes,
    everything,
    first_of_rows,
    layout_letters,
    loaded,
    mapped,
    operand,
    partials,
    read_elements,
    stored,
)

__all__ = ["WORD_BYTES", "Access", "Footprint", "accesses", "chunk_letters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One operation's reads or writes of one buffer slot; ``ahead`` as in :class:`SharedRef`. ``by_hardware``: not by
    the thread itself, whose own writes the copy and product hardware sees after a fence only.
    """

    buffer: SharedBuffer
    ahead: int
    is_write: bool
    is_async: bool
    footprint: Footprint
    by_hardware: bool = False


def accesses(op: Leaf, team: Team) -> tuple[Access, ...]:
    """The operation's shared-memory accesses, reads before writes."""
    match op:
        case plan.CopyIn():
            return (_access(op.dst, chunks(op.dst, team, op.vector_bytes), is_write=True, is_async=True),)
        case plan.CopyOut():
            return (_access(op.src, copied_out(op, team)),)
        case plan.StoreScalars():
            return (_access(op.src, mapped(op.src, team)),) if isinstance(op.src, SharedRef) else ()
        case plan.LoadFragment():
            return (_access(op.src, loaded(op, team)),)
        case plan.StoreFragment():
            return (_access(op.dst, stored(op, team), is_write=True),)
        case plan.MapFragment() | plan.MapRows() | plan.ReduceColumns():
            layout = op.layout if isinstance(op, plan.ReduceColumns) else op.dst.layout
            return _reads(op.expr, op.homes, layout_letters(layout, team), team)
        case plan.MapScalar() | plan.ReduceVector():
            return _reads(op.expr, op.homes, {}, team)
        case plan.StoreRows():
            return (_access(op.dst, first_of_rows(op, team), is_write=True),)
        case plan.ScanVector():
            written = _access(op.dst, mapped(op.dst, team), is_write=True)
            return (_access(op.src, everything(op.src, team)), written)
        case plan.MapShared():
            reads = _reads(op.expr, op.homes, dealt_letters(op.dst, team), team)
            return (*reads, _access(op.dst, mapped(op.dst, team), is_write=True))
        case plan.Mma():
            return (_access(op.b, operand(op, team)),)
        case plan.BoxIn() | plan.BoxOut() | plan.WarpgroupMma():
            return _by_hardware(op, team)
        case plan.ExchangeWrite():
            return (_access(_scratch(op.scratch), partials(op.src, team, own=True), is_write=True),)
        case plan.ExchangeRead():
            return (_access(_scratch(op.scratch), partials(op.dst, team, own=False)),)
        case plan.DiagonalBlocks():
            inverted = _access(op.dst, diagonal_writes(op.dst, team), is_write=True)
            return (_access(op.src, diagonal_reads(op.src, team)), inverted)
        case plan.Arrive():
            return tuple(_access(ref, everything(ref, team)) for ref in op.refs)
        case _:
            return ()


def _access(ref: SharedRef, footprint: Footprint, is_write: bool = False, is_async: bool = False) -> Access:
    return Access(buffer=ref.buffer, ahead=ref.ahead, is_write=is_write, is_async=is_async, footprint=footprint)


def _by_hardware(op: plan.BoxIn | plan.BoxOut | plan.WarpgroupMma, team: Team) -> tuple[Access, ...]:
    """One thread asks for boxes, all of a warpgroup for a product."""
    found: tuple[Access, ...]
    match op:
        case plan.BoxIn():
            found = (_access(op.dst, by_first_thread(op.dst), is_write=True),)
        case plan.BoxOut():
            found = (_access(op.src, by_first_thread(op.src)),)
        case plan.WarpgroupMma():
            found = tuple(_access(ref, everything(ref, team)) for ref in (op.a, op.b))
        case _:
            assert_never(op)
    return tuple(replace(access, by_hardware=True) for access in found)


def _scratch(buffer: SharedBuffer) -> SharedRef:
    return SharedRef(buffer=buffer, axes=())


def _reads(expr: Expr, homes: Homes, letters: Letters, team: Team) -> tuple[Access, ...]:
    """What an element-wise expression reads of the tiles in shared memory."""
    known = dict(homes)
    found = []
    for read in dict.fromkeys(tile_reads(expr)):
        home = known[read.value.name]
        if isinstance(home, SharedRef):
            found.append(_access(home, read_elements(read, home, letters, team)))
    return tuple(found)


def chunk_letters(op: plan.MapShared, value: str, home: SharedRef) -> tuple[Index, ...] | None:
    """The letters by which a statement reads a tile's rows and columns, if it reads it in one way only."""
    reads = [read for read in tile_reads(op.expr) if read.value.name == value]
    ways = {tuple(_letter(read, axis) for axis in home.axes) for read in reads}
    if len(ways) != 1:
        return None
    letters = ways.pop()
    return tuple(letter for letter in letters if letter is not None) if None not in letters else None


def _letter(read: TileRead, axis: Index) -> Index | None:
    sub = dict(zip(read.value.indices, read.subs, strict=True))[axis]
    return sub.index if sub.offset == 0 else None
