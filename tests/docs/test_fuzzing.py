"""The counts of ``docs/fuzzing.md`` are those of the run that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
LOG = (DOCS / "fuzzing.md").read_text().split("## The log")[1].split("Found on the way")[0]


def recorded() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DOCS / "evidence" / "fuzz.json").read_text())
    return document


def numbers(text: str) -> dict[str, int]:
    """``Load 29,751, If 6`` by name."""
    return {name: int(n.replace(",", "")) for name, n in re.findall(r"(\w+) (\d[\d,]*\d|\d)\b", text)}


def test_the_row_says_what_the_run_found() -> None:
    ((command, agreed, refused, kinds, failed),) = re.findall(
        r"^\| `(.+)` \| ([\d,]+) \| ([\d,]+): (.*) \| (\d+) \|$", LOG, re.MULTILINE
    )
    document, output = recorded(), recorded()["output"]
    assert document["command"] == f"{command} --json"
    assert [int(n.replace(",", "")) for n in (agreed, refused, failed)] == [
        output[key] for key in ("agreed", "refused", "failed")
    ]
    assert {**numbers(kinds), "agrees": output["agreed"]} == output["kinds"]


def test_the_nodes_are_those_of_the_run() -> None:
    rows = re.findall(r"^\| (?:Tile|Plan) IR\S* ?\w* \| (.*) \|$", LOG, re.MULTILINE)
    assert len(rows) == 3
    assert numbers(", ".join(rows)) == recorded()["output"]["nodes"]
