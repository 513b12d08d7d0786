"""A statement as one line in the language's own style: ``x[e,i] = uc[i,e] - Sb[e,d] @ wc[i,d]``."""

from __future__ import annotations

import ast
from collections.abc import Mapping

_LOOSEST, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _ATOM = range(9)

_BINARY: Mapping[type[ast.operator], tuple[str, int]] = {
    ast.Add: (" + ", _SUM),
    ast.Sub: (" - ", _SUM),
    ast.Mult: ("*", _PRODUCT),
    ast.Div: ("/", _PRODUCT),
    ast.FloorDiv: ("//", _PRODUCT),
    ast.Mod: ("%", _PRODUCT),
    ast.MatMult: (" @ ", _PRODUCT),
}
_COMPARISON: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def statement_text(node: ast.stmt) -> str:
    """The statement, or the head of a loop or branch, whatever its spacing in the file."""
    match node:
        case ast.Assign():
            return f"{expression_text(node.targets[0])} = {expression_text(node.value)}"
        case ast.For():
            return f"for {expression_text(node.target)} in {expression_text(node.iter)}"
        case ast.If():
            return f"if {expression_text(node.test)}"
        case _:
            return "return"


def expression_text(node: ast.expr, level: int = _LOOSEST) -> str:
    """The expression, in parentheses where it binds looser than ``level``."""
    text, own = _expression(node)
    return f"({text})" if own < level else text


def _expression(node: ast.expr) -> tuple[str, int]:
    match node:
        case ast.Name():
            return node.id, _ATOM
        case ast.Constant():
            return (f'"{node.value}"' if isinstance(node.value, str) else repr(node.value)), _ATOM
        case ast.Attribute():
            return f"{expression_text(node.value, _ATOM)}.{node.attr}", _ATOM
        case ast.Subscript():
            return f"{expression_text(node.value, _ATOM)}[{_subscripts(node.slice)}]", _ATOM
        case ast.Call():
            return f"{expression_text(node.func, _ATOM)}({', '.join(map(expression_text, node.args))})", _ATOM
        case ast.Tuple():
            return ", ".join(map(expression_text, node.elts)), _LOOSEST
        case _:
            return _operation(node)


def _operation(node: ast.expr) -> tuple[str, int]:
    match node:
        case ast.BinOp():
            sign, level = _BINARY[type(node.op)]
            return f"{expression_text(node.left, level)}{sign}{expression_text(node.right, level + 1)}", level
        case ast.UnaryOp(op=ast.Not()):
            return f"not {expression_text(node.operand, _NOT)}", _NOT
        case ast.UnaryOp():
            return f"-{expression_text(node.operand, _SIGN)}", _SIGN
        case ast.Compare():
            rest = (
                f" {_COMPARISON[type(op)]} {expression_text(right, _SUM)}"
                for op, right in zip(node.ops, node.comparators, strict=True)
            )
            return expression_text(node.left, _SUM) + "".join(rest), _COMPARE
        case ast.BoolOp():
            word, level = (" and ", _AND) if isinstance(node.op, ast.And) else (" or ", _OR)
            return word.join(expression_text(value, level + 1) for value in node.values), level
        case ast.IfExp():
            then, cond, orelse = expression_text(node.body, _OR), expression_text(node.test, _OR), node.orelse
            return f"{then} if {cond} else {expression_text(orelse)}", _LOOSEST
        case _:
            raise ValueError(f"{type(node).__name__} is not in the tile language")


def _subscripts(node: ast.expr) -> str:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return ",".join(expression_text(part).replace(" + ", "+").replace(" - ", "-").replace(", ", ",") for part in parts)
