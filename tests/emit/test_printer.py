"""Device IR as text: precedence, line breaks, one statement of each kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomgen.emit.printer import WIDTH, expression, print_function
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
    Literal,
    Parameter,
    Prefix,
    Return,
    Scope,
    Ternary,
    call,
    name,
    num,
)

A, B, C = name("a"), name("b"), name("c")


def op(text: str, a: CExpr, b: CExpr) -> Infix:
    return Infix(op=text, a=a, b=b)


def body(*statements: CStmt) -> list[str]:
    """The lines between the kernel's braces, without their common indent."""
    function = Function(name="k", threads=128, min_blocks=1, parameters=(), body=statements)
    first, signature, *lines, last = print_function(function).splitlines()
    assert (first, signature, last) == ("LOOM_KERNEL(128, 1)", "k() {", "}")
    return [line.removeprefix("    ") for line in lines]


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (op("*", op("+", A, B), C), "(a + b) * c"),
        (op("+", A, op("*", B, C)), "a + b * c"),
        (op("+", op("+", A, B), C), "a + b + c"),
        (op("+", A, op("+", B, C)), "a + (b + c)"),
        (op("-", A, op("+", B, C)), "a - (b + c)"),
        (op("-", op("-", A, B), C), "a - b - c"),
        (op("-", A, op("-", B, C)), "a - (b - c)"),
        (op("+", A, op("-", B, C)), "a + (b - c)"),
        (op("*", A, op("*", B, C)), "a * (b * c)"),
        (op("/", op("*", A, B), C), "a * b / c"),
        (op("%", A, op("/", B, C)), "a % (b / c)"),
        (op("<", op("+", A, num(1)), B), "a + 1 < b"),
        (op("&&", op("<", A, B), op("||", B, C)), "a < b && (b || c)"),
        (op("||", op("&&", A, B), C), "(a && b) || c"),
        (op("||", A, op("||", B, C)), "a || b || c"),
        (Prefix(op="-", x=op("+", A, B)), "-(a + b)"),
        (op("*", Prefix(op="-", x=A), B), "-a * b"),
        (Prefix(op="-", x=num(-1)), "-(-1)"),
        (Prefix(op="!", x=op("==", A, B)), "!(a == b)"),
        (Ternary(cond=op("<", A, B), then=A, orelse=B), "a < b ? a : b"),
        (op("+", Ternary(cond=A, then=B, orelse=C), num(1)), "(a ? b : c) + 1"),
        (Ternary(cond=A, then=B, orelse=Ternary(cond=B, then=A, orelse=C)), "a ? b : b ? a : c"),
        (Ternary(cond=Ternary(cond=A, then=B, orelse=C), then=A, orelse=B), "(a ? b : c) ? a : b"),
        (call("f", op("+", A, B), Braces(items=(A, B), type="f32x2")), "f(a + b, f32x2{a, b})"),
        (Element(array="x", subscripts=(op("/", A, num(2)), num(3))), "x[a / 2][3]"),
    ],
)
def test_parentheses_stand_where_they_are_needed(expr: CExpr, text: str) -> None:
    assert expression(expr) == text


INTEGERS = st.recursive(
    st.integers(0, 9).map(num),
    lambda inner: (
        st.builds(Infix, op=st.sampled_from(["+", "-", "*"]), a=inner, b=inner)
        | st.builds(Prefix, op=st.just("-"), x=inner)
    ),
    max_leaves=12,
)


def value(expr: CExpr) -> int:
    match expr:
        case Literal():
            return int(expr.text)
        case Prefix():
            return -value(expr.x)
        case Infix():
            a, b = value(expr.a), value(expr.b)
            return {"+": a + b, "-": a - b, "*": a * b}[expr.op]
        case _:
            raise AssertionError(expr)


@given(INTEGERS)
def test_what_is_printed_means_the_tree(expr: CExpr) -> None:
    text = expression(expr)
    assert "--" not in text, "two minus signs would be a decrement"
    assert eval(text) == value(expr)


def test_each_statement() -> None:
    loop = For(var="i", begin=num(0), end=num(4), unroll=True, body=(Do(call=call("f", name("i"))),))
    assert body(
        Comment(text="x = a", statement=True),
        Declare(type="const int", name="x", init=A),
        DeclareArray(type="float", name="y", extents=(2, 4)),
        DeclareArray(type="const float", name="z", extents=(2,), init=Braces(items=(A, B))),
        Blank(),
        Comment(text="why"),
        loop,
        For(var="n", begin=A, end=B, unroll=False, body=(Assign(target=C, value=name("n")),)),
        Scope(body=(Branch(cond=A, then=(Return(),)),)),
        Branch(cond=B, then=(Return(),), orelse=(Do(call=call("g")),)),
    ) == [
        "/// x = a",
        "const int x = a;",
        "float y[2][4];",
        "const float z[2] = {a, b};",
        "",
        "// why",
        "LOOM_UNROLL",
        "for (int i = 0; i < 4; ++i) {",
        "    f(i);",
        "}",
        "for (int n = a; n < b; ++n) {",
        "    c = n;",
        "}",
        "{",
        "    if (a) return;",
        "}",
        "if (b) {",
        "    return;",
        "} else {",
        "    g();",
        "}",
    ]


def test_a_call_that_is_too_wide_is_broken_between_its_arguments() -> None:
    long = "a" * 60
    assert body(Do(call=call("f", name(long), name(long), A))) == ["f(", f"    {long},", f"    {long}, a);"]


def test_a_sum_that_is_too_wide_is_broken_before_its_operator() -> None:
    long = name("a" * 70)
    assert body(Assign(target=C, value=op("+", long, long))) == [f"c = {'a' * 70}", f"    + {'a' * 70};"]


def test_a_select_that_is_too_wide_has_an_arm_a_line() -> None:
    long = name("a" * 50)
    lines = body(Declare(type="float", name="x", init=Ternary(cond=A, then=long, orelse=op("-", long, B))))
    assert lines == ["float x = a", f"    ? {'a' * 50}", f"    : {'a' * 50} - b;"]


def test_parameters_are_wrapped_at_the_width() -> None:
    parameters = tuple(Parameter(type="const bf16* __restrict__", name=f"x{n}") for n in range(4))
    text = print_function(Function(name="k" * 40, threads=64, min_blocks=2, parameters=parameters, body=()))
    assert text == (
        "LOOM_KERNEL(64, 2)\n"
        f"{'k' * 40}(\n"
        "    const bf16* __restrict__ x0, const bf16* __restrict__ x1, const bf16* __restrict__ x2,\n"
        "    const bf16* __restrict__ x3) {\n"
        "}\n"
    )
    assert max(map(len, text.splitlines())) <= WIDTH
