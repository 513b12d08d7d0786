"""Device IR: C-like statements and calls of primitives, printed one to one as CUDA by `loomgen.emit.printer`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from typing_extensions import assert_never

# --------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """A number as it is printed: ``64``, ``0.0f``, ``true``, ``nullptr``, ``C`` for a static one that is declared."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    op: str
    x: CExpr


@dataclass(frozen=True, slots=True, kw_only=True)
class Infix:
    op: str
    a: CExpr
    b: CExpr


@dataclass(frozen=True, slots=True, kw_only=True)
class Ternary:
    cond: CExpr
    then: CExpr
    orelse: CExpr


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke:
    """A call of a primitive, a method (``tile.at``) or a functional cast (``int64_t(x)``)."""

    function: str
    args: tuple[CExpr, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element of a register array: ``x[n][2 * h]``."""

    array: str
    subscripts: tuple[CExpr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Braces:
    """A brace initialiser ``{a, b}``, or a value of a vector type: ``u32x4{a, b, c, d}``."""

    items: tuple[CExpr, ...]
    type: str = ""


CExpr = Name | Literal | Prefix | Infix | Ternary | Invoke | Element | Braces

# --------------------------------------------------------------------------- statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Declare:
    """``type name = init;``, with a remark at the end of its line; the type carries its own ``const``."""

    type: str
    name: str
    init: CExpr
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclareArray:
    """``type name[a][b];``, zero-initialised on request, or with a brace initialiser."""

    type: str
    name: str
    extents: tuple[int, ...]
    init: Braces | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    target: CExpr
    value: CExpr


@dataclass(frozen=True, slots=True, kw_only=True)
class Do:
    """An expression for its effect: a call of a primitive, with a remark at the end of its line."""

    call: Invoke
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class For:
    """``for (int var = begin; var < end; ++var)``; ``unroll`` prints LOOM_UNROLL before it."""

    var: str
    begin: CExpr
    end: CExpr
    unroll: bool
    body: tuple[CStmt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    cond: CExpr
    then: tuple[CStmt, ...]
    orelse: tuple[CStmt, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Ends the thread; only where the whole block does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A braced block, so that names of one statement do not leak into the next."""

    body: tuple[CStmt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """``// text``; with ``statement``, ``/// text``: the spec statement that the following code carries out."""

    text: str
    statement: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank:
    pass


CStmt = Declare | DeclareArray | Assign | Do | For | Branch | Return | Scope | Comment | Blank


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of the kernel as printed: ``const bf16* __restrict__ kn``."""

    type: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One kernel."""

    name: str
    threads: int
    min_blocks: int
    parameters: tuple[Parameter, ...]
    body: tuple[CStmt, ...]


# --------------------------------------------------------------------------- constructors that fold constants


def num(value: int) -> CExpr:
    return Literal(text=str(value))


def name(text: str) -> CExpr:
    return Name(text=text)


def call(function: str, *args: CExpr) -> Invoke:
    return Invoke(function=function, args=args)


def _as_int(x: CExpr) -> int | None:
    if isinstance(x, Literal) and x.text.lstrip("-").isdigit():
        return int(x.text)
    return None


def add(a: CExpr, b: CExpr) -> CExpr:
    """a + b for integers, folded; a sum on the right joins the terms on the left."""
    if isinstance(b, Infix) and b.op == "+":
        return add(add(a, b.a), b.b)
    x, y = _as_int(a), _as_int(b)
    if x is not None and y is not None:
        return num(x + y)
    if y is not None and isinstance(a, Infix) and a.op == "+" and _as_int(a.b) is not None:
        return add(a.a, add(a.b, b))
    if x == 0:
        return b
    if y == 0:
        return a
    if y is not None and y < 0:
        return Infix(op="-", a=a, b=num(-y))
    return Infix(op="+", a=a, b=b)


def mul(a: CExpr, b: CExpr) -> CExpr:
    """a * b for integers, folded."""
    x, y = _as_int(a), _as_int(b)
    if x is not None and y is not None:
        return num(x * y)
    if x == 0 or y == 0:
        return num(0)
    if x == 1:
        return b
    if y == 1:
        return a
    return Infix(op="*", a=a, b=b)


# --------------------------------------------------------------------------- what is mentioned


def mentioned(node: CStmt | CExpr) -> frozenset[str]:
    """Every variable, array and tile that a statement or expression names (``kc.at(...)`` names ``kc``)."""
    match node:
        case Name():
            return frozenset({node.text.partition(".")[0]})
        case Literal():
            return frozenset({node.text}) if node.text.isidentifier() else frozenset()
        case Comment() | Blank() | Return():
            return frozenset()
        case Prefix():
            return mentioned(node.x)
        case Infix():
            return mentioned(node.a) | mentioned(node.b)
        case Ternary():
            return _all_mentioned((node.cond, node.then, node.orelse))
        case Invoke():
            return _all_mentioned(node.args) | {node.function.partition(".")[0]}
        case Element():
            return _all_mentioned(node.subscripts) | {node.array}
        case Braces():
            return _all_mentioned(node.items)
        case Declare():
            return mentioned(node.init) | constants_of(node.type)
        case DeclareArray():
            return frozenset() if node.init is None else mentioned(node.init)
        case Assign():
            return mentioned(node.target) | mentioned(node.value)
        case Do():
            return mentioned(node.call)
        case For():
            return _all_mentioned((node.begin, node.end, *node.body))
        case Branch():
            return _all_mentioned((node.cond, *node.then, *node.orelse))
        case Scope():
            return _all_mentioned(node.body)
        case _:
            assert_never(node)


def constants_of(type_: str) -> frozenset[str]:
    """The names among the numbers of a template: ``K`` of ``SharedTile<bf16, 64, K, K, 3>``."""
    _, _, numbers = type_.rpartition(">")[0].partition(",")
    arguments = (text.strip() for text in numbers.split(","))
    return frozenset(argument for argument in arguments if argument and not argument.isdigit())


def _all_mentioned(nodes: Iterable[CStmt | CExpr]) -> frozenset[str]:
    return frozenset().union(*(mentioned(node) for node in nodes))
