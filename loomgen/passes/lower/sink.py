"""A constant declared where it is needed, so that no register holds it for the whole kernel."""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir.device import Blank, Branch, Comment, CStmt, Declare, For, Scope, mentioned


def sink(declared: Declare, body: tuple[CStmt, ...]) -> tuple[CStmt, ...]:
    """``body`` with the declaration in front of the first statement that uses it itself; where only blocks inside do,
    in each of them.
    """
    users = [stmt for stmt in body if declared.name in mentioned(stmt)]
    if all(_uses_inside(declared, stmt) for stmt in users):
        return tuple(_inside(declared, stmt) if stmt in users else stmt for stmt in body)
    first = next(at for at, stmt in enumerate(body) if stmt in users)
    while first > 0 and isinstance(body[first - 1], Comment | Blank):
        first -= 1
    return (*body[:first], declared, *body[first:])


def _uses_inside(declared: Declare, stmt: CStmt) -> bool:
    """The blocks of the statement use the constant, but not its own expressions."""
    match stmt:
        case For():
            return declared.name not in mentioned(replace(stmt, body=()))
        case Branch():
            return declared.name not in mentioned(stmt.cond)
        case Scope():
            return True
        case _:
            return False


def _inside(declared: Declare, stmt: CStmt) -> CStmt:
    match stmt:
        case For() | Scope():
            return replace(stmt, body=sink(declared, stmt.body))
        case Branch():
            return replace(stmt, then=sink(declared, stmt.then), orelse=sink(declared, stmt.orelse))
        case _:
            return stmt
