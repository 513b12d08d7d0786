"""What is known when a kernel is generated: static numbers, parameters, dtypes; folding and static branches."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass

from loomgen.errors import Span
from loomgen.ir.types import DType
from loomgen.spec.codes import Code
from loomgen.spec.report import Reject, did_you_mean
from loomgen.spec.source import Text
from loomgen.spec.syntax import parse_expression

Choice = str | int | bool
RUNTIME_DIM = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
"""Upper case names that are not static dims are run-time dims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statics:
    """One expansion's static names.

    ``numbers``: dims, variant names and integer parameters; ``params``: every parameter's value and
    ``choices`` its possible ones; ``origins``: where an expansion gave a name its value.
    """

    numbers: Mapping[str, int]
    params: Mapping[str, Choice]
    choices: Mapping[str, tuple[Choice, ...]]
    dtypes: Mapping[str, DType]
    origins: Mapping[str, Span]


def fold(node: ast.expr, statics: Statics) -> int | float | None:
    """The number that ``node`` is whatever the input, or None."""
    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        case ast.Name():
            return statics.numbers.get(node.id)
        case ast.UnaryOp(op=ast.USub()):
            operand = fold(node.operand, statics)
            return None if operand is None else -operand
        case ast.BinOp():
            a, b = fold(node.left, statics), fold(node.right, statics)
            return None if a is None or b is None else _fold_binary(node.op, a, b)
        case _:
            return None


def _fold_binary(op: ast.operator, a: int | float, b: int | float) -> int | float | None:
    whole = isinstance(a, int) and isinstance(b, int) and b != 0
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv():
            return a // b if whole else None
        case ast.Mod():
            return a % b if whole else None
        case _:
            return None


def static_number(text: Text, statics: Statics) -> int:
    """The integer that an expression of static names is. Raises :class:`Reject`."""
    node = parse_expression(text)
    value = fold(node, statics)
    if isinstance(value, int):
        return value
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id not in statics.numbers:
            message, hint = f"unknown static name `{part.id}`", did_you_mean(part.id, statics.numbers)
            raise Reject(Code.UNKNOWN_STATIC, text.span(part), message, hint)
    raise Reject(Code.NOT_STATIC, text.span(node), f"`{text.value}` is not an integer expression of static names")


def origin(node: ast.expr, statics: Statics, fallback: Span) -> Span:
    """Where the expansion gave a value to a name of ``node``, else ``fallback``."""
    names = (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
    return next((statics.origins[name] for name in names if name in statics.origins), fallback)


def resolve_static(body: list[ast.stmt], statics: Statics, text: Text) -> list[ast.stmt]:
    """The program with static branches and static selects decided; a taken ``if`` stays as ``if True``."""
    resolver = _Resolver(statics, text)
    return [part for node in body for part in resolver.statement(copy.deepcopy(node))]


class _Resolver(ast.NodeTransformer):
    def __init__(self, statics: Statics, text: Text) -> None:
        self._statics = statics
        self._text = text

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        result = self.visit(node)
        return [] if result is None else [result]

    def visit_If(self, node: ast.If) -> ast.If | None:
        decided = self._decide(node.test)
        if decided is None:
            self.generic_visit(node)
            return node
        taken = [part for child in (node.body if decided else node.orelse) for part in self.statement(child)]
        if not taken:
            return None
        test = ast.copy_location(ast.Constant(value=True), node.test)
        return ast.copy_location(ast.If(test=test, body=taken, orelse=[]), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        decided = self._decide(node.test)
        if decided is None:
            self.generic_visit(node)
            return node
        chosen: ast.expr = self.visit(node.body if decided else node.orelse)
        return chosen

    def _decide(self, node: ast.expr) -> bool | None:
        match node:
            case ast.Name() if isinstance(self._statics.params.get(node.id), bool):
                return bool(self._statics.params[node.id])
            case ast.UnaryOp(op=ast.Not()):
                operand = self._decide(node.operand)
                return None if operand is None else not operand
            case ast.BoolOp():
                values = [self._decide(value) for value in node.values]
                if None in values:
                    return None
                return all(values) if isinstance(node.op, ast.And) else any(values)
            case ast.Compare(ops=[op], comparators=[right]):
                return self._compare(node.left, op, right)
            case _:
                return None

    def _compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
        if isinstance(left, ast.Name) and isinstance(op, (ast.Eq, ast.NotEq)) and isinstance(right, ast.Constant):
            known = self._statics.choices.get(left.id)
            if known is not None:
                self._check_choice(left.id, right, known)
                return (self._statics.params[left.id] == right.value) == isinstance(op, ast.Eq)
        a, b = fold(left, self._statics), fold(right, self._statics)
        return None if a is None or b is None else _compare_numbers(op, a, b)

    def _check_choice(self, name: str, node: ast.Constant, known: tuple[Choice, ...]) -> None:
        value = node.value
        if value in known:
            return
        shown = ", ".join(str(choice) for choice in known)
        hint = did_you_mean(str(value), map(str, known))
        message = f"`{value!s}` is not a choice of `{name}` ({shown})"
        raise Reject(Code.NOT_A_CHOICE, self._text.span(node), message, hint)


def _compare_numbers(op: ast.cmpop, a: int | float, b: int | float) -> bool:
    match op:
        case ast.Eq():
            return a == b
        case ast.NotEq():
            return a != b
        case ast.Lt():
            return a < b
        case ast.LtE():
            return a <= b
        case ast.Gt():
            return a > b
        case _:
            return a >= b
