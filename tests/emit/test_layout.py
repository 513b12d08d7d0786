"""The file layout around a kernel's text."""

from __future__ import annotations

from loomgen.emit.layout import kernel_source
from tests.render.fakes import kernel


def test_the_body_stands_alone_with_one_trailing_newline() -> None:
    text = kernel_source(kernel(), "\nbody {\n}\n\n")
    assert text.endswith("using namespace loom;\n\nbody {\n}\n")


def test_nothing_is_escaped() -> None:
    assert "a < b && c > d;" in kernel_source(kernel(), "a < b && c > d;")
