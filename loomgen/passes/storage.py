"""Which register tiles share one array: a loop-carried tile is updated in place.

SSA names an update of the state apart from the state itself; the kernel must not hold both. Two names share an array
when one takes over from the other: the sides of a loop-carried or merged value, a contraction and the seed that only
it reads, and the element-wise update of a carried tile when nothing reads the old tile any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from loomgen.ir import tile, walk
from loomgen.ir.tile import Carry, Contract, Map, Program, Stmt, TileRead
from loomgen.ir.types import Value


@dataclass(slots=True)
class _Classes:
    """Union-find over value names; a class is called by its first name in program order."""

    parent: dict[str, str] = field(default_factory=dict)
    rank: dict[str, int] = field(default_factory=dict)

    def find(self, name: str) -> str:
        while (up := self.parent.get(name, name)) != name:
            name = up
        return name

    def union(self, a: str, b: str) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        first, second = sorted((a, b), key=lambda name: self.rank.get(name, len(self.rank)))
        self.parent[second] = first


def share_registers(program: Program) -> dict[str, str]:
    """The array's name for each value name that shares one; a name that is missing keeps its own."""
    counts = walk.read_counts(program.body)
    classes = _Classes(rank=_definition_order(program.body))
    _join_block(program.body, frozenset(), classes, counts)
    return {name: classes.find(name) for name in (*classes.rank, *classes.parent)}


def _join_block(
    block: tuple[Stmt, ...], here: frozenset[str], classes: _Classes, counts: dict[str, int]
) -> frozenset[str]:
    """``here``: the values of this iteration of the innermost loop so far. Returns those after the block.

    An older value is needed again in the next iteration, so nothing takes over from it.
    """

    def join(source: Value, target: Value) -> None:
        if source.name in here:
            _join_if_last(classes, source, target, counts)

    for stmt in block:
        match stmt:
            case tile.ForWindow() | tile.ForRange():
                for carry in stmt.carried:
                    join(carry.init, carry.inner)
                    _join_carry(classes, carry, stmt.body, counts)
                _join_block(stmt.body, frozenset(carry.inner.name for carry in stmt.carried), classes, counts)
            case tile.If():
                for arm in (stmt.then, stmt.orelse):
                    here |= _join_block(arm, here, classes, counts)
                for merge in stmt.merges:
                    join(merge.then, merge.result)
                    join(merge.orelse, merge.result)
            case Contract() if stmt.seed is not None:
                join(stmt.seed.value, stmt.value)
            case _:
                pass
        here |= {value.name for value in walk.defined(stmt)}
    return here


def _definition_order(block: tuple[Stmt, ...]) -> dict[str, int]:
    order: dict[str, int] = {}
    for stmt in walk.statements(block):
        inner = [carry.inner for carry in stmt.carried] if isinstance(stmt, tile.ForWindow | tile.ForRange) else []
        for value in (*inner, *walk.defined(stmt)):
            order.setdefault(value.name, len(order))
    return order


def _join_if_last(classes: _Classes, source: Value, target: Value, counts: dict[str, int]) -> None:
    if source.indices and counts.get(source.name) == 1:
        classes.union(source.name, target.name)


def _join_carry(classes: _Classes, carry: Carry, body: tuple[Stmt, ...], counts: dict[str, int]) -> None:
    if not carry.inner.indices:
        return
    classes.union(carry.inner.name, carry.result.name)
    for name in _in_place_chain(carry, body, counts):
        classes.union(carry.inner.name, name)


def _in_place_chain(carry: Carry, body: tuple[Stmt, ...], counts: dict[str, int]) -> tuple[str, ...]:
    """The names from the update back to the element-wise statement that may overwrite the carried tile, or none."""
    definitions = {value.name: at for at, stmt in enumerate(body) for value in walk.defined(stmt)}
    chain: list[str] = []
    name = carry.update.name
    while name in definitions:
        at = definitions[name]
        stmt = body[at]
        chain.append(name)
        if isinstance(stmt, Map) and _overwrites(stmt, carry.inner) and not _reads_after(body, at, carry.inner):
            return tuple(chain)
        if not isinstance(stmt, Contract) or stmt.seed is None or counts.get(stmt.seed.value.name) != 1:
            return ()
        if stmt.seed.value == carry.inner and not _reads_after(body, at, carry.inner):
            return tuple(chain)
        name = stmt.seed.value.name
    return ()


def _overwrites(stmt: Map, inner: Value) -> bool:
    """Element (i, j) of the result needs element (i, j) of the carried tile alone."""
    subs = tuple(tile.Sub(index=index) for index in stmt.value.indices)
    reads = [read for read in walk.tile_reads(stmt.expr) if read.value == inner]
    return bool(reads) and all(read.subs == subs for read in reads)


def _reads_after(body: tuple[Stmt, ...], at: int, value: Value) -> bool:
    later = walk.statements(body[at + 1 :])
    return any(_reads(expr, value) for stmt in later for expr in walk.expressions(stmt))


def _reads(expr: tile.Coord, value: Value) -> bool:
    return any(isinstance(node, TileRead) and node.value == value for node in walk.nodes(expr))
