"""Verifier of Device IR: what a C++ compiler would refuse, and what it would not notice.

Holds after every pass over Device IR: a name is declared before its use in a scope around it, once in each scope;
only what is no constant is assigned; subscripts stay inside their array for every value of the loop variables around
them, where both ends of the loop are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import assert_never

from loomgen.errors import InternalError
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
    Parameter,
    Prefix,
    Return,
    Scope,
    Ternary,
    constants_of,
)

_CONSTANTS = frozenset({"true", "false", "nullptr"})
_Range = tuple[int, int]  # lowest and highest value


def verify_device(parameters: tuple[Parameter, ...], body: tuple[CStmt, ...], pass_name: str) -> None:
    """Raises InternalError naming the pass and the name."""
    outer = _Names(known={parameter.name: _Declared(is_const=False) for parameter in parameters})
    _Verifier(pass_name=pass_name).block(body, outer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """What is known of a name; ``extents`` of an array, ``values`` of a loop variable with constant bounds."""

    is_const: bool
    extents: tuple[int, ...] = ()
    values: _Range | None = None


@dataclass(slots=True, kw_only=True)
class _Names:
    """The names of one scope, and those around it."""

    known: dict[str, _Declared] = field(default_factory=dict)
    outer: _Names | None = None

    def find(self, name: str) -> _Declared | None:
        if name in self.known:
            return self.known[name]
        return None if self.outer is None else self.outer.find(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verifier:
    pass_name: str

    def fail(self, fault: str) -> InternalError:
        return InternalError(self.pass_name, fault)

    # ------------------------------------------------------------------ statements

    def block(self, body: tuple[CStmt, ...], names: _Names) -> None:
        for stmt in body:
            self._statement(stmt, names)

    def _statement(self, stmt: CStmt, names: _Names) -> None:
        match stmt:
            case Declare():
                self._expression(stmt.init, names)
                for constant in sorted(constants_of(stmt.type)):
                    self._known(constant, names)
                self._declare(stmt.name, _declared(stmt, names), names)
            case DeclareArray():
                if stmt.init is not None:
                    self._expression(stmt.init, names)
                is_const = stmt.type.startswith("const ")
                self._declare(stmt.name, _Declared(is_const=is_const, extents=stmt.extents), names)
            case Assign():
                self._expression(stmt.value, names)
                self._target(stmt.target, names)
            case Do():
                self._expression(stmt.call, names)
            case For():
                self._expression(stmt.begin, names)
                self._expression(stmt.end, names)
                variable = _Declared(is_const=True, values=_loop_values(stmt, names))
                self.block(stmt.body, _Names(known={stmt.var: variable}, outer=names))
            case Branch():
                self._expression(stmt.cond, names)
                self.block(stmt.then, _Names(outer=names))
                self.block(stmt.orelse, _Names(outer=names))
            case Scope():
                self.block(stmt.body, _Names(outer=names))
            case Return() | Comment() | Blank():
                pass
            case _:
                assert_never(stmt)

    def _declare(self, name: str, what: _Declared, names: _Names) -> None:
        if name in names.known:
            raise self.fail(f"{name} is declared twice in one scope")
        names.known[name] = what

    def _target(self, target: CExpr, names: _Names) -> None:
        self._expression(target, names)
        if not isinstance(target, Name | Element):
            raise self.fail(f"{type(target).__name__} is assigned")
        name = target.text if isinstance(target, Name) else target.array
        if self._known(name, names).is_const:
            raise self.fail(f"constant {name} is assigned")

    # ------------------------------------------------------------------ expressions

    def _known(self, name: str, names: _Names) -> _Declared:
        found = names.find(name)
        if found is None:
            raise self.fail(f"{name} is used and not declared")
        return found

    def _expression(self, expr: CExpr, names: _Names) -> None:
        match expr:
            case Name():
                if expr.text not in _CONSTANTS:
                    self._known(expr.text.partition(".")[0], names)
            case Literal():
                if expr.text.isidentifier() and expr.text not in _CONSTANTS:
                    self._known(expr.text, names)
            case Element():
                self._element(expr, names)
            case Prefix():
                self._expression(expr.x, names)
            case Infix():
                self._all((expr.a, expr.b), names)
            case Ternary():
                self._all((expr.cond, expr.then, expr.orelse), names)
            case Invoke():
                owner, dot, _ = expr.function.partition(".")
                if dot:
                    self._known(owner, names)
                self._all(expr.args, names)
            case Braces():
                self._all(expr.items, names)
            case _:
                assert_never(expr)

    def _all(self, exprs: tuple[CExpr, ...], names: _Names) -> None:
        for expr in exprs:
            self._expression(expr, names)

    def _element(self, expr: Element, names: _Names) -> None:
        self._all(expr.subscripts, names)
        extents = self._known(expr.array, names).extents
        if len(expr.subscripts) > len(extents):
            raise self.fail(
                f"{expr.array} has {len(extents)} dimensions and is given {len(expr.subscripts)} subscripts"
            )
        for subscript, extent in zip(expr.subscripts, extents, strict=False):
            values = _values(subscript, names)
            if values is not None and (values[0] < 0 or values[1] >= extent):
                raise self.fail(f"{expr.array}: a subscript reaches {values[0]} .. {values[1]} of {extent}")


# --------------------------------------------------------------------------- values


def _declared(stmt: Declare, names: _Names) -> _Declared:
    if stmt.type == "constexpr int":
        return _Declared(is_const=True, values=_values(stmt.init, names))
    return _Declared(is_const=stmt.type.startswith("const ") and "*" not in stmt.type)


def _loop_values(loop: For, names: _Names) -> _Range | None:
    begin, end = _values(loop.begin, names), _values(loop.end, names)
    if begin is None or end is None or begin[0] >= end[1]:
        return None
    return begin[0], end[1] - 1


def _values(expr: CExpr, names: _Names) -> _Range | None:
    """The integers that an expression of constants and loop variables can be; None where that is not known."""
    match expr:
        case Literal() if expr.text.lstrip("-").isdigit():
            return int(expr.text), int(expr.text)
        case Name() | Literal():
            found = names.find(expr.text)
            return None if found is None else found.values
        case Infix():
            a, b = _values(expr.a, names), _values(expr.b, names)
            return None if a is None or b is None else _combined(expr.op, a, b)
        case _:
            return None


def _combined(op: str, a: _Range, b: _Range) -> _Range | None:
    match op:
        case "+":
            return a[0] + b[0], a[1] + b[1]
        case "-":
            return a[0] - b[1], a[1] - b[0]
        case "*":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "/" if a[0] >= 0 and b[0] == b[1] > 0:
            return a[0] // b[0], a[1] // b[0]
        case "%" if a[0] >= 0 and b[0] == b[1] > 0:
            return (a[0] % b[0], a[1] % b[0]) if a[0] // b[0] == a[1] // b[0] else (0, b[0] - 1)
        case _:
            return None
