"""Device IR as CUDA text: a printer that decides nothing but line breaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import groupby
from textwrap import wrap

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
    Function,
    Infix,
    Invoke,
    Literal,
    Name,
    Prefix,
    Return,
    Scope,
    Ternary,
)

WIDTH = 120
_INDENT = "    "
_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
_TERNARY, _PREFIX, _PRIMARY = 0, 7, 8
_LOGICAL = frozenset({"||", "&&"})


def print_function(function: Function) -> str:
    """The kernel's signature and body, newline-terminated."""
    head = f"LOOM_KERNEL({function.threads}, {function.min_blocks})"
    parameters = [f"{p.type} {p.name}" for p in function.parameters]
    lines = [head, *_wrapped(f"{function.name}(", parameters, ") {", "")]
    lines += _block(function.body, _INDENT)
    lines.append("}")
    return "\n".join(lines) + "\n"


def _block(body: Iterable[CStmt], indent: str) -> Iterator[str]:
    for kind, run in groupby(body, _kind):
        stmts = list(run)
        declared = [stmt for stmt in stmts if isinstance(stmt, Declare)]
        if kind is _Kind.REMARKED:
            yield from _in_column([line for stmt in stmts for line in _statement(stmt, indent)], declared)
        elif kind is _Kind.NUMBER:
            texts = [f"{stmt.name} = {expression(stmt.init)}" for stmt in declared]
            yield from _wrapped(f"{declared[0].type} ", texts, ";", indent)
        else:
            yield from (line for stmt in stmts for line in _statement(stmt, indent))


class _Kind(Enum):
    """What is laid out together with its neighbours."""

    NUMBER = 0  # on one line
    REMARKED = 1  # with the remarks below one another
    OTHER = 2


def _kind(stmt: CStmt) -> _Kind:
    if not isinstance(stmt, Declare):
        return _Kind.OTHER
    if stmt.remark:
        return _Kind.REMARKED
    return _Kind.NUMBER if stmt.type == "constexpr int" else _Kind.OTHER


def _in_column(lines: list[str], declared: list[Declare]) -> Iterator[str]:
    """Declarations of a line each with their remarks below one another."""
    column = max(map(len, lines))
    for line, stmt in zip(lines, declared, strict=True):
        yield f"{line.ljust(column)}  // {stmt.remark}"


def _statement(stmt: CStmt, indent: str) -> Iterator[str]:
    match stmt:
        case Declare(init=Braces(type="") as braces):
            yield from _line(f"{stmt.type} {stmt.name}", braces, ";", indent)
        case Declare():
            yield from _line(f"{stmt.type} {stmt.name} = ", stmt.init, ";", indent)
        case DeclareArray():
            extents = "".join(f"[{extent}]" for extent in stmt.extents)
            head = f"{stmt.type} {stmt.name}{extents}"
            if stmt.init is None:
                yield f"{indent}{head};"
            else:
                yield from _line(f"{head} = ", stmt.init, ";", indent)
        case Assign(value=Infix(op="+" | "*" as op) as value) if value.a == stmt.target:
            yield from _line(f"{expression(stmt.target)} {op}= ", value.b, ";", indent)
        case Assign():
            yield from _line(f"{expression(stmt.target)} = ", stmt.value, ";", indent)
        case Do():
            yield from _call(stmt, indent)
        case For():
            yield from _loop(stmt, indent)
        case Branch():
            yield from _branch(stmt, indent)
        case Scope():
            yield f"{indent}{{"
            yield from _block(stmt.body, indent + _INDENT)
            yield f"{indent}}}"
        case Return():
            yield f"{indent}return;"
        case Comment(statement=True):
            yield f"{indent}/// {stmt.text}"
        case Comment():
            yield from (f"{indent}// {text}" for text in _comment(stmt.text, WIDTH - len(indent) - 3))
        case Blank():
            yield ""
        case _:
            assert_never(stmt)


def _call(stmt: Do, indent: str) -> Iterator[str]:
    """The remark stands behind the call, or above it where the line has no room."""
    lines = list(_line("", stmt.call, ";", indent))
    remarked = f"{lines[0]}  // {stmt.remark}"
    if not stmt.remark:
        yield from lines
    elif len(lines) == 1 and len(remarked) <= WIDTH:
        yield remarked
    else:
        yield from (f"{indent}// {text}" for text in _comment(stmt.remark, WIDTH - len(indent) - 3))
        yield from lines


def _comment(text: str, width: int) -> list[str]:
    """On as many lines as it takes; an indented one stays so."""
    margin = text[: len(text) - len(text.lstrip())]
    return wrap(text, width, subsequent_indent=margin + "    ", break_long_words=False, break_on_hyphens=False)


def _loop(stmt: For, indent: str) -> Iterator[str]:
    if stmt.unroll:
        yield f"{indent}LOOM_UNROLL"
    end = expression(stmt.end)
    yield f"{indent}for (int {stmt.var} = {expression(stmt.begin)}; {stmt.var} < {end}; ++{stmt.var}) {{"
    yield from _block(stmt.body, indent + _INDENT)
    yield f"{indent}}}"


def _branch(stmt: Branch, indent: str) -> Iterator[str]:
    if stmt.then == (Return(),) and not stmt.orelse:
        yield f"{indent}if ({expression(stmt.cond)}) return;"
        return
    yield f"{indent}if ({expression(stmt.cond)}) {{"
    yield from _block(stmt.then, indent + _INDENT)
    if stmt.orelse:
        yield f"{indent}}} else {{"
        yield from _block(stmt.orelse, indent + _INDENT)
    yield f"{indent}}}"


# --------------------------------------------------------------------------- expressions


def expression(expr: CExpr, outer: int = _TERNARY) -> str:
    """One line of C; parentheses only where precedence needs them or a reader would want them."""
    match expr:
        case Name() | Literal():
            return expr.text
        case Prefix():
            return _prefix(expr)
        case Infix():
            return _infix(expr, outer)
        case Ternary():
            text = f"{expression(expr.cond, 1)} ? {expression(expr.then, 1)} : {expression(expr.orelse)}"
            return f"({text})" if outer > _TERNARY else text
        case Invoke():
            return f"{expr.function}({', '.join(expression(arg) for arg in expr.args)})"
        case Element():
            return expr.array + "".join(f"[{expression(sub)}]" for sub in expr.subscripts)
        case Braces():
            return f"{expr.type}{{{', '.join(expression(item) for item in expr.items)}}}"
        case _:
            assert_never(expr)


def _prefix(expr: Prefix) -> str:
    """Two minus signs in a row would be a decrement."""
    inner = expression(expr.x, _PREFIX)
    return f"{expr.op}({inner})" if inner.startswith(expr.op) else f"{expr.op}{inner}"


def _infix(expr: Infix, outer: int) -> str:
    level = _PRECEDENCE[expr.op]
    right_level = level if expr.op in _LOGICAL else level + 1
    text = f"{_operand(expr, expr.a, level)} {expr.op} {_operand(expr, expr.b, right_level)}"
    return f"({text})" if outer > level else text


def _operand(expr: Infix, operand: CExpr, level: int) -> str:
    """Sums keep their parentheses on the right: (a + b) + c rounds otherwise than a + (b + c)."""
    is_mixed = expr.op in _LOGICAL and _is(operand, *(_LOGICAL - {expr.op}))
    return expression(operand, _PREFIX if is_mixed else level)


def _is(expr: CExpr, *ops: str) -> bool:
    return isinstance(expr, Infix) and expr.op in ops


# --------------------------------------------------------------------------- line breaks


def _line(head: str, expr: CExpr, tail: str, indent: str) -> Iterator[str]:
    """``head expr tail``, broken at the outermost arguments, arms or operands when it is too wide, then further
    inside.
    """
    whole = f"{indent}{head}{expression(expr)}{tail}"
    if len(whole) <= WIDTH:
        yield whole
        return
    deeper = indent + _INDENT
    match expr:
        case Invoke():
            yield from _arguments(f"{head}{expr.function}(", expr.args, f"){tail}", indent)
        case Braces():
            yield from _arguments(f"{head}{expr.type}{{", expr.items, f"}}{tail}", indent)
        case Ternary():
            yield from _line(head, expr.cond, "", indent)
            yield from _broken("? ", expr.then, "", deeper, 1)
            yield from _broken(": ", expr.orelse, tail, deeper, _TERNARY)
        case Infix():
            yield from _broken(head, expr.a, "", indent, _PRECEDENCE[expr.op])
            yield from _broken(f"{expr.op} ", expr.b, tail, deeper, _PRECEDENCE[expr.op] + 1)
        case _:
            yield whole


def _broken(head: str, expr: CExpr, tail: str, indent: str, outer: int) -> Iterator[str]:
    """An operand on lines of its own, in the parentheses that it needs there."""
    needs_parentheses = expression(expr, outer) != expression(expr)
    if needs_parentheses:
        yield from _line(f"{head}(", expr, f"){tail}", indent)
        return
    yield from _line(head, expr, tail, indent)


def _arguments(head: str, args: tuple[CExpr, ...], tail: str, indent: str) -> Iterator[str]:
    """Arguments that fit share lines; one that does not is broken further."""
    deeper = indent + _INDENT
    texts = [expression(arg) for arg in args]
    if all(len(deeper) + len(text) + 1 <= WIDTH for text in texts):
        yield from _wrapped(head, texts, tail, indent)
        return
    yield f"{indent}{head}"
    for at, arg in enumerate(args):
        yield from _line("", arg, "," if at + 1 < len(args) else tail, deeper)


def _wrapped(head: str, items: list[str], tail: str, indent: str) -> Iterator[str]:
    """Items on as few lines as hold them."""
    whole = f"{indent}{head}{', '.join(items)}{tail}"
    if len(whole) <= WIDTH:
        yield whole
        return
    deeper = indent + _INDENT
    yield f"{indent}{head}"
    line = deeper
    for at, item in enumerate(items):
        text = item + ("," if at + 1 < len(items) else tail)
        if line != deeper and len(line) + 1 + len(text) > WIDTH:
            yield line
            line = deeper
        line += text if line == deeper else f" {text}"
    yield line
