"""Names in marks to identifiers.

Before: a name of the lowering's own has a mark (``names.MARK``) in it, ``$slab`` or ``kc$next``; every other name is
the stage's. After: each marked name is an identifier that nothing else in the kernel has, and none of the stage's is a
word of C++; so no variable hides another one, whatever the stage calls its tiles, letters, loops and arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from typing_extensions import assert_never

from loomgen.ir.device import (
    Assign,
    Blank,
    Braces,
    Branch,
    CExpr,
    Comment,
    CStmt,
    Declare,
    DeclareArray,
    Do,
    Element,
    For,
    Infix,
    Invoke,
    Literal,
    Name,
    Prefix,
    Return,
    Scope,
    Ternary,
    constants_of,
)
from loomgen.passes.lower.cxx_words import CXX_WORDS, code_name
from loomgen.passes.lower.names import MARK

_MARKED = re.compile(rf"[\w{MARK}]*\{MARK}[\w{MARK}]*")


def with_identifiers(body: tuple[CStmt, ...], taken: frozenset[str]) -> tuple[CStmt, ...]:
    """The body without marks; ``taken`` are the names that no marked one may get beside those in the body."""
    names = dict.fromkeys(_base(text) for stmt in body for text in _names(stmt))
    used = taken | CXX_WORDS | {name for name in names if MARK not in name}
    identifiers: dict[str, str] = {}
    for name in (name for name in names if MARK in name):
        identifiers[name] = fresh(name.lstrip(MARK).replace(MARK, "_"), used)
        used |= {identifiers[name]}
    return _Renaming(identifiers).block(body)


def fresh(wanted: str, used: frozenset[str]) -> str:
    """``wanted``, with a number behind it where it is used."""
    name, count = wanted, 1
    while name in used:
        count += 1
        name = f"{wanted}{count}"
    return name


def _base(text: str) -> str:
    """``kc`` of ``kc.at`` and of ``kc.x``."""
    return text.partition(".")[0]


# --------------------------------------------------------------------------- finding


def _names(stmt: CStmt) -> Iterator[str]:
    """Every name in the statement, in the order of the text."""
    match stmt:
        case Declare():
            yield from (*sorted(constants_of(stmt.type)), stmt.name, *_in_expr(stmt.init))
        case DeclareArray():
            yield from (stmt.name, *(() if stmt.init is None else _in_expr(stmt.init)))
        case Assign():
            yield from _in_all((stmt.target, stmt.value))
        case Do():
            yield from _in_expr(stmt.call)
        case For():
            yield from (stmt.var, *_in_all((stmt.begin, stmt.end)), *_in_block(stmt.body))
        case Branch():
            yield from (*_in_expr(stmt.cond), *_in_block(stmt.then), *_in_block(stmt.orelse))
        case Scope():
            yield from _in_block(stmt.body)
        case Return() | Comment() | Blank():
            pass
        case _:
            assert_never(stmt)


def _in_block(body: Iterable[CStmt]) -> Iterator[str]:
    for stmt in body:
        yield from _names(stmt)


def _in_all(exprs: Iterable[CExpr]) -> Iterator[str]:
    for expr in exprs:
        yield from _in_expr(expr)


def _in_expr(expr: CExpr) -> Iterator[str]:
    match expr:
        case Name():
            yield expr.text
        case Literal():
            pass
        case Prefix():
            yield from _in_expr(expr.x)
        case Infix():
            yield from _in_all((expr.a, expr.b))
        case Ternary():
            yield from _in_all((expr.cond, expr.then, expr.orelse))
        case Invoke():
            yield from (expr.function, *_in_all(expr.args))
        case Element():
            yield from (expr.array, *_in_all(expr.subscripts))
        case Braces():
            yield from _in_all(expr.items)
        case _:
            assert_never(expr)


# --------------------------------------------------------------------------- renaming


@dataclass(frozen=True, slots=True)
class _Renaming:
    identifiers: dict[str, str]

    def block(self, body: tuple[CStmt, ...]) -> tuple[CStmt, ...]:
        return tuple(self._statement(stmt) for stmt in body)

    def _statement(self, stmt: CStmt) -> CStmt:
        match stmt:
            case Declare():
                type_ = self._marked(stmt.type)
                return replace(stmt, type=type_, name=self._text(stmt.name), init=self._expr(stmt.init))
            case DeclareArray():
                init = None if stmt.init is None else self._braces(stmt.init)
                return replace(stmt, name=self._text(stmt.name), init=init)
            case Assign():
                return Assign(target=self._expr(stmt.target), value=self._expr(stmt.value))
            case Do():
                return replace(stmt, call=self._invoke(stmt.call))
            case For():
                begin, end = self._expr(stmt.begin), self._expr(stmt.end)
                return replace(stmt, var=self._text(stmt.var), begin=begin, end=end, body=self.block(stmt.body))
            case Branch():
                then, orelse = self.block(stmt.then), self.block(stmt.orelse)
                return Branch(cond=self._expr(stmt.cond), then=then, orelse=orelse)
            case Scope():
                return Scope(body=self.block(stmt.body))
            case Comment():
                return replace(stmt, text=self._marked(stmt.text))
            case Return() | Blank():
                return stmt
            case _:
                assert_never(stmt)

    def _expr(self, expr: CExpr) -> CExpr:
        match expr:
            case Name():
                return Name(text=self._text(expr.text))
            case Literal():
                return Literal(text=code_name(expr.text)) if expr.text[:1].isupper() else expr
            case Prefix():
                return replace(expr, x=self._expr(expr.x))
            case Infix():
                return replace(expr, a=self._expr(expr.a), b=self._expr(expr.b))
            case Ternary():
                arms = {"then": self._expr(expr.then), "orelse": self._expr(expr.orelse)}
                return Ternary(cond=self._expr(expr.cond), **arms)
            case Invoke():
                return self._invoke(expr)
            case Element():
                return Element(array=self._text(expr.array), subscripts=self._all(expr.subscripts))
            case Braces():
                return self._braces(expr)
            case _:
                assert_never(expr)

    def _all(self, exprs: tuple[CExpr, ...]) -> tuple[CExpr, ...]:
        return tuple(self._expr(expr) for expr in exprs)

    def _invoke(self, expr: Invoke) -> Invoke:
        function = self._text(expr.function) if "." in expr.function else expr.function
        return Invoke(function=function, args=self._all(expr.args))

    def _braces(self, expr: Braces) -> Braces:
        return replace(expr, items=self._all(expr.items))

    def _marked(self, text: str) -> str:
        """A text with the marked names in it replaced."""
        return _MARKED.sub(lambda found: self.identifiers.get(found[0], found[0]), text)

    def _text(self, text: str) -> str:
        base, dot, rest = text.partition(".")
        return f"{self.identifiers.get(base) or code_name(base)}{dot}{rest}"
