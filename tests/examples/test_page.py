"""The page about the examples names every one of them and quotes them as they are."""

from __future__ import annotations

import re

from tests.examples.running import ROOT

PAGE = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
SPECS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "specs" / "examples").glob("*.yaml"))}


def test_every_example_is_on_the_page() -> None:
    assert set(re.findall(r"specs/examples/(\w+)\.yaml", PAGE)) == set(SPECS)


def test_quoted_statements_are_those_of_the_specs() -> None:
    blocks = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    quoted = [line.strip() for block in blocks for line in block.splitlines() if line != "..."]
    written = {line.strip() for text in SPECS.values() for line in text.splitlines()}
    assert len(quoted) > 10
    assert [line for line in quoted if line not in written] == []
