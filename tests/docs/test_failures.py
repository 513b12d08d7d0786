"""The page of failure kinds names every test of one, and every test there is named after its kind."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "failures.md").read_text()


def test_each_kind_has_the_test_that_its_row_names() -> None:
    rows = re.findall(r"^\| (\d+) \| .* \| `(test_kind_(\d\d)_\w+\.py)` \|", PAGE, re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == [int(in_name) for _, _, in_name in rows]
    assert {name for _, name, _ in rows} == {path.name for path in (ROOT / "tests" / "failures").glob("test_*.py")}


def test_each_test_says_its_kind() -> None:
    for path in (ROOT / "tests" / "failures").glob("test_kind_*.py"):
        number = int(path.name.split("_")[2])
        assert path.read_text().startswith(f'"""Kind {number}, '), path.name
