"""The counts of ``docs/mutation.md`` are those of the run that it names."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from loomgen.mutation import Kind

DOCS = Path(__file__).resolve().parents[2] / "docs"
COLUMNS = ("race", "pending_copy", "uninitialised", "layout", "deadlock", "bad_barrier", "accumulator", "proxy", "bits")


def rows() -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = json.loads((DOCS / "evidence" / "mutation.json").read_text())["output"]
    return output


def counts(found: list[dict[str, Any]]) -> list[int]:
    killers = Counter(row["killed_by"].split()[0] for row in found if row["killed_by"] is not None)
    assert set(killers) <= set(COLUMNS)
    return [len(found), killers.total(), *(killers[column] for column in COLUMNS)]


def test_the_table_says_what_the_run_found() -> None:
    text = (DOCS / "mutation.md").read_text().split("## The count")[1]
    table = {
        match[1]: [int(cell) for cell in match[2].split("|")]
        for match in re.finditer(r"^\| (\w+) \| ([\d |]*\d) \|$", text, re.MULTILINE)
    }
    by_kind = {kind.value: counts([row for row in rows() if row["kind"] == kind.value]) for kind in Kind}
    assert table == {**by_kind, "all": counts(rows())}
