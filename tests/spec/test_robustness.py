"""Whatever is done to a spec's text, the answer is kernels or a SpecError with places inside the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loomgen.errors import SpecError
from loomgen.spec import render_error
from tests.spec.support import BASE, kernels_of

_PIECES = st.sampled_from(
    [
        "[",
        "]",
        "(",
        ")",
        ":",
        "@",
        "i",
        "e",
        "c",
        "n",
        "0",
        " ",
        "\n",
        "\n  ",
        "if ",
        "S",
        "=",
        ",",
        "-",
        '"',
        "{",
        "}",
        "kc",
    ]
)


def _survives(folder: Path, text: str) -> None:
    try:
        assert kernels_of(folder, text)
    except SpecError as error:
        assert error.diagnostics
        assert render_error(error, {"demo.yaml": text})
        n_lines = text.count("\n") + 1
        for item in error.diagnostics:
            assert 1 <= item.span.line <= n_lines and 1 <= item.span.col < item.span.end_col, item


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, len(BASE)), length=st.integers(0, 12), piece=_PIECES)
def test_any_edit_is_answered(start: int, length: int, piece: str, tmp_path: Path) -> None:
    _survives(tmp_path, BASE[:start] + piece + BASE[start + length :])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_swapped_words_are_answered(data: st.DataObject, tmp_path: Path) -> None:
    lines = BASE.split("\n")
    rows = [k for k, line in enumerate(lines) if line.strip()]
    first, second = data.draw(st.sampled_from(rows)), data.draw(st.sampled_from(rows))
    words = lines[first].split(" ")
    place = data.draw(st.integers(0, len(words) - 1))
    words[place] = data.draw(st.sampled_from(lines[second].split(" ")))
    lines[first] = " ".join(words)
    _survives(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    "text", ["", "\n", "- a", "12", "a", "\ufeffstage: x", "a: b: c", "%", "? [a]\n: b", "program: 3"]
)
def test_small_files_are_answered(text: str, tmp_path: Path) -> None:
    _survives(tmp_path, text)


def test_deep_nesting_is_answered(tmp_path: Path) -> None:
    for depth in (10, 90, 300, 3000):
        for start in ("-" * depth + "scale", "+".join(["scale"] * depth), "(" * depth + "scale" + ")" * depth):
            _survives(tmp_path, BASE.replace("scale*(TX(", f"{start}*(TX("))
