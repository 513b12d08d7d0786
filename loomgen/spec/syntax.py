"""Text to syntax: Python's own parser reads it, nothing is evaluated, and what the language lacks is refused."""

from __future__ import annotations

import ast
from typing import Any

from loomgen.errors import Span
from loomgen.spec.codes import Code
from loomgen.spec.report import Collector, Reject
from loomgen.spec.source import Text

_STATEMENTS = (ast.Assign, ast.For, ast.If, ast.Return)
_EXPRESSIONS = (
    ast.Name,
    ast.Subscript,
    ast.Attribute,
    ast.Call,
    ast.IfExp,
    ast.Tuple,
)
_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult),
    *(ast.USub, ast.Not, ast.And, ast.Or),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
MAX_DEPTH = 100
"""Levels of syntax in one expression: every later step may recurse on it without a care."""
_LAYOUT_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_ignores"})


def parse_program(text: Text, diagnostics: Collector) -> list[ast.stmt]:
    """The statements of a program; what is not in the language is recorded and left out. Raises :class:`Reject`."""
    try:
        body = ast.parse(text.value).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise _syntax_error(text, error) from None
    return _supported(body, text, diagnostics)


def parse_expression(text: Text) -> ast.expr:
    """One expression, such as a ``where`` or a grid axis. Raises :class:`Reject`."""
    try:
        node = ast.parse(text.value, mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise _syntax_error(text, error) from None
    _check_expression(node, text)
    return node


def canonical(node: Any) -> Any:
    """Syntax as nested lists, the same for any spacing, comments and Python version."""
    if isinstance(node, list):
        return [canonical(item) for item in node]
    if not isinstance(node, ast.AST):
        return node
    fields = [canonical(getattr(node, name)) for name in node._fields if name not in _LAYOUT_FIELDS]
    return [type(node).__name__, *fields]


def _syntax_error(text: Text, error: Exception) -> Reject:
    if not isinstance(error, SyntaxError) or not error.lineno:
        span = Span(path=text.path, line=text.line, col=text.col, end_col=text.col + 1)
        return Reject(Code.SYNTAX, span, "cannot be parsed")
    last_row = text.value.rstrip().count("\n") + 1
    row, col = min(error.lineno, last_row), max((error.offset or 1) - 1, 0)
    return Reject(Code.SYNTAX, text.at(row, col, col + 1), f"syntax error: {error.msg}")


def _supported(body: list[ast.stmt], text: Text, diagnostics: Collector) -> list[ast.stmt]:
    kept: list[ast.stmt] = []
    for node in body:
        with diagnostics.collecting():
            _check_statement(node, text)
            _check_blocks(node, text, diagnostics)
            kept.append(node)
    return kept


def _check_blocks(node: ast.stmt, text: Text, diagnostics: Collector) -> None:
    if isinstance(node, (ast.For, ast.If)):
        node.body = _supported(node.body, text, diagnostics)
        node.orelse = _supported(node.orelse, text, diagnostics)


def _check_statement(node: ast.stmt, text: Text) -> None:
    if not isinstance(node, _STATEMENTS):
        raise _refused(node, text)
    if isinstance(node, ast.Assign):
        if len(node.targets) != 1:
            raise Reject(Code.BAD_TARGET, text.span(node), "one left side for one right side")
        _check_expression(node.targets[0], text)
        _check_expression(node.value, text)
    if isinstance(node, ast.For):
        if node.orelse:
            raise Reject(Code.NOT_IN_LANGUAGE, text.span(node.orelse[0]), "`for` has no `else` in the tile language")
        _check_expression(node.iter, text)
    if isinstance(node, ast.If):
        _check_expression(node.test, text)
    if isinstance(node, ast.Return) and node.value is not None:
        raise Reject(Code.NOT_IN_LANGUAGE, text.span(node), "`return` has no value: results are stored to tensors")


def _check_expression(root: ast.expr, text: Text) -> None:
    if _is_deeper_than(root, MAX_DEPTH):
        message = f"an expression nested more than {MAX_DEPTH} levels deep"
        raise Reject(Code.SYNTAX, text.span(root), message, "give its parts names")
    for node in ast.walk(root):
        if isinstance(node, ast.expr) and not _expression_is_known(node):
            raise _refused(node, text)
        if isinstance(node, ast.Call) and node.keywords:
            raise Reject(Code.BAD_CALL, text.span(node), "functions take no keyword arguments")


def _is_deeper_than(root: ast.AST, limit: int) -> bool:
    level: list[ast.AST] = [root]
    for _ in range(limit):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def _expression_is_known(node: ast.expr) -> bool:
    match node:
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op):
            return isinstance(op, _OPERATORS)
        case ast.Compare():
            return all(isinstance(op, _OPERATORS) for op in node.ops)
        case ast.Constant():
            return isinstance(node.value, (int, float, str))
        case _:
            return isinstance(node, _EXPRESSIONS)


def _refused(node: ast.expr | ast.stmt, text: Text) -> Reject:
    kind = type(node).__name__
    message = f"this use of `{kind}` is not in the tile language"
    hints = {
        "AugAssign": "write `x = x + ...`",
        "Expr": "a statement assigns to a name or a tensor",
        "Pass": "leave the empty arm out",
        "BinOp": "there are + - * / // % and @",
    }
    return Reject(Code.NOT_IN_LANGUAGE, text.span(node), message, hints.get(kind))
