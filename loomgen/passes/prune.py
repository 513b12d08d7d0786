"""Device IR -> Device IR: constants that nothing mentions are not declared, empty code is not printed.

Before: everything that the code might need is named (a thread's coordinates, a window's length), so that lowering need
not ask who uses it. After: every declared name is mentioned, every branch and loop does something.
"""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir.device import (
    Blank,
    Branch,
    CExpr,
    Comment,
    CStmt,
    Declare,
    DeclareArray,
    For,
    Infix,
    Prefix,
    Scope,
    mentioned,
)

_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def prune(body: tuple[CStmt, ...]) -> tuple[CStmt, ...]:
    return _block(body)[0]


def _block(body: tuple[CStmt, ...]) -> tuple[tuple[CStmt, ...], frozenset[str]]:
    """The block without what is unused, and what it mentions."""
    used: frozenset[str] = frozenset()
    kept: list[CStmt] = []
    for stmt in reversed(body):
        if isinstance(stmt, Declare | DeclareArray) and stmt.name not in used:
            continue
        inner = _inside(stmt)
        if isinstance(inner, Branch | For) and not _has_code(inner):
            continue
        if isinstance(inner, Branch) and not inner.then:
            inner = Branch(cond=_inverse(inner.cond), then=inner.orelse)
        used |= mentioned(inner)
        kept.append(inner)
    return _tidy(tuple(reversed(kept))), used


def _inside(stmt: CStmt) -> CStmt:
    match stmt:
        case For() | Scope():
            return replace(stmt, body=_block(stmt.body)[0])
        case Branch():
            return replace(stmt, then=_block(stmt.then)[0], orelse=_block(stmt.orelse)[0])
        case _:
            return stmt


def _has_code(stmt: Branch | For) -> bool:
    blocks = (stmt.body,) if isinstance(stmt, For) else (stmt.then, stmt.orelse)
    return any(not isinstance(inner, Blank | Comment) for block in blocks for inner in block)


def _inverse(cond: CExpr) -> CExpr:
    """The condition of the other arm."""
    match cond:
        case Infix(op=op) if op in _OPPOSITES:
            return replace(cond, op=_OPPOSITES[op])
        case Prefix(op="!"):
            return cond.x
        case _:
            return Prefix(op="!", x=cond)


def _tidy(body: tuple[CStmt, ...]) -> tuple[CStmt, ...]:
    """No blank line at an end, none doubled."""
    out: list[CStmt] = []
    for stmt in body:
        if isinstance(stmt, Blank) and (not out or isinstance(out[-1], Blank)):
            continue
        out.append(stmt)
    while out and isinstance(out[-1], Blank):
        out.pop()
    return tuple(out)
