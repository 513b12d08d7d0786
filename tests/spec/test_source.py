"""YAML with places, and the syntax of programs: spans to the column, and statements as one line."""

from __future__ import annotations

import ast

import pytest

from loomgen.errors import Span
from loomgen.spec.report import Collector, did_you_mean
from loomgen.spec.source import read_document
from loomgen.spec.statement_text import statement_text
from loomgen.spec.syntax import canonical, parse_expression, parse_program


def _span(line: int, col: int, end_col: int) -> Span:
    return Span(path="x.yaml", line=line, col=col, end_col=end_col)


def test_keys_and_values_have_places() -> None:
    document = read_document("x.yaml", "a: {b: [1, two]}\nc: 'on'\n")
    assert document.data == {"a": {"b": [1, "two"]}, "c": "on"}
    assert document.keys[("a", "b")] == _span(1, 5, 6)
    assert document.values[("a", "b", 1)] == _span(1, 12, 15)
    assert document.value_span(("a", "b", 7, "deeper")) == document.values[("a", "b")]
    assert document.key_span(("a", "z")) == document.keys[("a",)]


@pytest.mark.parametrize(
    ("text", "value"),
    [("on", "on"), ("no", "no"), ("y", "y"), ("true", True), ("12", 12), ("-3", -3), ("1e-6", 1e-6), ("0x10", "0x10"),
     ("~", None), ("'12'", "12"), ("1.5", 1.5), (".", ".")],
)  # fmt: skip
def test_plain_words_are_words(text: str, value: object) -> None:
    assert read_document("x.yaml", f"k: {text}").data == {"k": value}


@pytest.mark.parametrize("head", ["|", "|-", "|+", "|  # the program"])
@pytest.mark.parametrize("blank", ["", "\n", "\n   \n"])
def test_a_literal_block_keeps_lines_and_columns(head: str, blank: str) -> None:
    document = read_document("x.yaml", f"stage: s\nprogram: {head}\n{blank}     a = 1\n     bb = ccc\nnext: 1\n")
    text = document.texts[("program",)]
    assert text.is_literal
    second = parse_program(text, Collector())[1]
    assert isinstance(second, ast.Assign)
    line = 4 + blank.count("\n")
    assert text.span(second.value) == _span(line, 11, 14)


def test_a_quoted_expression_keeps_its_columns() -> None:
    text = read_document("x.yaml", 'where: {hk: "hv // H"}').texts[("where", "hk")]
    node = parse_expression(text)
    assert isinstance(node, ast.BinOp)
    assert text.span(node.right) == _span(1, 20, 21)


def test_columns_count_characters() -> None:
    text = read_document("x.yaml", "program: |\n  a = 'ü' + bb\n").texts[("program",)]
    (statement,) = parse_program(text, Collector())
    assert isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp)
    assert text.span(statement.value.right) == _span(2, 13, 15)


def test_a_statement_over_two_lines_is_marked_on_its_first() -> None:
    text = read_document("x.yaml", "program: |\n  a = (b +\n       c)\n").texts[("program",)]
    assert text.span(parse_program(text, Collector())[0]) == _span(2, 3, 11)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("x[ e,i ]=uc[i , e]-Sb[e,d]@wc[i,d]", "x[e,i] = uc[i,e] - Sb[e,d] @ wc[i,d]"),
        ("y[c[min(i, c.last)]] = 1.50", "y[c[min(i,c.last)]] = 1.5"),
        ("a = (b - (c - d)) * (e / (f*g))", "a = (b - (c - d))*(e/(f*g))"),
        (
            "a = -(b + c) if not (d and e or f) else (g if h else k)",
            "a = -(b + c) if not (d and e or f) else g if h else k",
        ),
        ("a = (b if c else d) + x[W - 1]", "a = (b if c else d) + x[W-1]"),
        ("for c in chunks( n ):\n  a = 1", "for c in chunks(n)"),
        ("if  given(h0) and 0<=i<3 :\n  a = 1", "if given(h0) and 0 <= i < 3"),
        ("if start=='prescan':\n  return", 'if start == "prescan"'),
        ("U[i,j] = unit_lower_inverse[i,j]( L[i,j] )", "U[i,j] = unit_lower_inverse[i,j](L[i,j])"),
    ],
)
def test_a_statement_as_one_line_means_the_same(written: str, shown: str) -> None:
    node = ast.parse(written).body[0]
    assert statement_text(node) == shown
    if isinstance(node, ast.Assign):
        assert canonical(ast.parse(shown).body[0]) == canonical(node)


def test_hints() -> None:
    assert did_you_mean("sclae", ["scale", "eps"]) == "did you mean `scale`?"
    assert did_you_mean("zzz", ["scale", "eps"]) is None
