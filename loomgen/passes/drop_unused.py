"""Tile IR -> Tile IR: what nothing reads is not computed.

Before: everything that the spec says. After: every value is read, by a store in the end; a branch or loop without a
store is there for a value that is read after it. Tensors that only such statements read need no argument.
"""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir import tile, walk
from loomgen.ir.tile import Program, Stmt


def drop_unused(program: Program) -> Program:
    while (body := _swept(program.body, frozenset(walk.read_counts(program.body)))) != program.body:
        program = replace(program, body=body)
    return program


def _swept(block: tuple[Stmt, ...], read: frozenset[str]) -> tuple[Stmt, ...]:
    return tuple(_trimmed(stmt, read) for stmt in block if _is_used(stmt, read))


def _is_used(stmt: Stmt, read: frozenset[str]) -> bool:
    stores = any(isinstance(inner, tile.Store) for inner in walk.statements((stmt,)))
    return stores or any(value.name in read for value in walk.defined(stmt))


def _trimmed(stmt: Stmt, read: frozenset[str]) -> Stmt:
    match stmt:
        case tile.ForWindow() | tile.ForRange():
            carried = tuple(c for c in stmt.carried if c.result.name in read or c.inner.name in read)
            return replace(stmt, carried=carried, body=_swept(stmt.body, read))
        case tile.If():
            merges = tuple(merge for merge in stmt.merges if merge.result.name in read)
            return replace(stmt, then=_swept(stmt.then, read), orelse=_swept(stmt.orelse, read), merges=merges)
        case _:
            return stmt
