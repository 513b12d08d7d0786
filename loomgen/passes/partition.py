"""A program's statements shared out among the roles: each role gets the control around its statements, and those alone.

Scalars belong to every role that reads them: each computes them again. A tile that goes from one role to another is one
that the copy hardware brings; anything else that crosses is refused, with the statement that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from loomgen.ir import tile, walk
from loomgen.ir.schedule import Role, Schedule
from loomgen.ir.tile import Load, Program, Stmt, Store
from loomgen.passes.select_rules import reject
from loomgen.spec.codes import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleProgram:
    """What one role runs."""

    role: Role
    program: Program


def partition(program: Program, schedule: Schedule) -> tuple[RoleProgram, ...]:
    """The roles' programs, in the order of the schedule. Raises SpecError where a value crosses that cannot."""
    owner = _Owner(schedule=schedule)
    crossing = {load.value.name for load in boxed_loads(program, schedule)}
    parts = []
    for role in schedule.roles:
        body = _read_scalars(_part(program.body, role, owner))
        _check_crossing(body, role, crossing)
        parts.append(RoleProgram(role=role, program=replace(program, body=body)))
    return tuple(parts)


def boxed_loads(program: Program, schedule: Schedule) -> Iterator[Load]:
    """The tiles that the copy hardware brings."""
    loads = (stmt for stmt in walk.statements(program.body) if isinstance(stmt, Load))
    return (load for load in loads if load.value.name in schedule.boxes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owner:
    schedule: Schedule

    def runs(self, role: Role, stmt: Stmt) -> bool:
        name = _left_side(stmt)
        named = next((other for other in self.schedule.roles if other.runs is not None and name in other.runs), None)
        return role.runs is None if named is None else named == role


def _left_side(stmt: Stmt) -> str:
    """What a schedule calls the statement."""
    return stmt.tensor.name if isinstance(stmt, Store) else next(value.name for value in walk.defined(stmt))


def _part(block: tuple[Stmt, ...], role: Role, owner: _Owner) -> tuple[Stmt, ...]:
    return tuple(kept for stmt in block if (kept := _kept(stmt, role, owner)) is not None)


def _kept(stmt: Stmt, role: Role, owner: _Owner) -> Stmt | None:
    match stmt:
        case tile.ForWindow() | tile.ForRange():
            body = _part(stmt.body, role, owner)
            carried = tuple(c for c in stmt.carried if c.update.name in _defined(body))
            return replace(stmt, body=body, carried=carried) if body else None
        case tile.If():
            then, orelse = _part(stmt.then, role, owner), _part(stmt.orelse, role, owner)
            known = _defined((*then, *orelse))
            merges = tuple(m for m in stmt.merges if m.then.name in known or m.orelse.name in known)
            return replace(stmt, then=then, orelse=orelse, merges=merges) if then or orelse else None
        case _:
            is_scalar = isinstance(stmt, tile.Map) and not stmt.value.indices
            return stmt if is_scalar or owner.runs(role, stmt) else None


def _defined(block: tuple[Stmt, ...]) -> frozenset[str]:
    return frozenset(value.name for stmt in walk.statements(block) for value in walk.defined(stmt))


def _read_scalars(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block without the scalars that nothing in it reads, and without what is empty then."""
    while (kept := _swept(block, walk.read_counts(block))) != block:
        block = kept
    return block


def _swept(block: tuple[Stmt, ...], read: Mapping[str, int]) -> tuple[Stmt, ...]:
    return walk.map_blocks(block, lambda inner: tuple(stmt for stmt in inner if _is_needed(stmt, read)))


def _is_needed(stmt: Stmt, read: Mapping[str, int]) -> bool:
    match stmt:
        case tile.Map(value=value):
            return bool(value.indices) or value.name in read
        case tile.ForWindow() | tile.ForRange() | tile.If():
            return any(walk.bodies(stmt))
        case _:
            return True


def _check_crossing(body: tuple[Stmt, ...], role: Role, crossing: set[str]) -> None:
    loops = [stmt for stmt in walk.statements(body) if isinstance(stmt, tile.ForWindow | tile.ForRange)]
    known = _defined(body) | {carry.inner.name for loop in loops for carry in loop.carried}
    for stmt in walk.statements(body):
        reads = {read.value.name for expr in walk.expressions(stmt) for read in walk.tile_reads(expr)}
        for name in sorted(reads - known - crossing):
            message = f"{name} is computed by another role than `{role.name}`, which reads it"
            raise reject(stmt.span, Code.ROLE_DEPENDENCE, message, "run both statements in one role")
