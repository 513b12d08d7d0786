"""Static numbers as a kernel writes them: by the names that its spec gives them."""

from __future__ import annotations

import ast
import re

from loomgen.ir.device import CExpr, CStmt, Declare, Infix, Literal, num
from loomgen.ir.tile import Program
from loomgen.ir.types import Index

_NAME = re.compile(r"[A-Z][A-Z0-9]*")
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Mod: "%",
}


def constants(program: Program) -> list[CStmt]:
    """Declares the dims and a variant's numbers; what a kernel does not use is pruned."""
    return [
        Declare(type="constexpr int", name=text, init=num(value))
        for text, value in program.numbers
        if _NAME.fullmatch(text)
    ]


def static(symbol: int | str, value: int) -> CExpr:
    """``symbol`` in C; the number itself where there is no symbol, or none that means the same in C."""
    if not isinstance(symbol, str) or not symbol:
        return num(value)
    found = _lowered(ast.parse(symbol, mode="eval").body)
    return num(value) if found is None else found


def extent(index: Index) -> CExpr:
    """How many values an index letter has."""
    return static(index.symbol, index.extent)


def template_argument(symbol: str, value: int) -> str:
    """A number among the arguments of a template, by its name if it has one."""
    return symbol if _NAME.fullmatch(symbol) else str(value)


def _lowered(node: ast.expr) -> CExpr | None:
    match node:
        case ast.Constant(value=int(number)):
            return num(number)
        case ast.Name(id=text) if _NAME.fullmatch(text):
            return Literal(text=text)
        case ast.BinOp(op=operator) if type(operator) in _OPERATORS and not _is_signed_division(node):
            a, b = _lowered(node.left), _lowered(node.right)
            return None if a is None or b is None else Infix(op=_OPERATORS[type(operator)], a=a, b=b)
        case _:
            return None


def _is_signed_division(node: ast.BinOp) -> bool:
    """A division whose operands may be negative, which C rounds another way."""
    is_division = isinstance(node.op, ast.FloorDiv | ast.Mod)
    return is_division and any(isinstance(part, ast.Sub | ast.USub) for part in ast.walk(node))
