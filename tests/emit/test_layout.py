"""The file layout around a kernel's text."""

from __future__ import annotations

from dataclasses import replace

from loomgen.emit.describe import description
from loomgen.emit.layout import kernel_source
from tests.render.fakes import kernel


def test_the_body_stands_alone_with_one_trailing_newline() -> None:
    text = kernel_source(kernel(), "\nbody {\n}\n\n")
    assert text.endswith("using namespace loom;\n\nbody {\n}\n")


def test_nothing_is_escaped() -> None:
    assert "a < b && c > d;" in kernel_source(kernel(), "a < b && c > d;")


def test_the_top_says_what_the_kernel_computes_and_on_what() -> None:
    spec = kernel()
    given, scaled = (
        replace(spec.program.tensors[0], symbols=("T", "K"), about=about, strides=strides, optional=optional, name=name)
        for name, about, strides, optional in (("x", "keys", "rows", False), ("scale", "", "free", True))
    )
    about = "Sums:\n    y = sum x.\\\n"
    spec = replace(spec, about=about, program=replace(spec.program, tensors=(given, scaled)))
    assert description(spec) == [
        "copy__c64_f32__base",
        "",
        "Sums:",
        "    y = sum x.",
        "",
        "  in  x      f32[T, K]  keys; rows contiguous",
        "  in  scale  f32[T, K]  may be absent; any strides",
    ]


def test_running_text_is_folded_as_one_and_what_is_indented_stays_by_itself() -> None:
    about = "It is\nwide " + "and wide " * 14 + "\nand ends:\n    y = x\n    z = y\n\nThen\nmore.\n"
    lines = description(replace(kernel(), about=about))
    first = lines.index("It is wide " + "and wide " * 11 + "and")
    assert lines[first + 1 : first + 7] == [
        "wide and wide and wide and ends:",
        "    y = x",
        "    z = y",
        "",
        "Then more.",
        "",
    ]


def test_a_wide_line_of_the_text_is_folded_with_its_margin() -> None:
    about = "  " + "word " * 30
    lines = description(replace(kernel(), about=about))
    assert all(line.startswith("  word") for line in lines[2:4])
    assert max(map(len, lines)) <= 117
