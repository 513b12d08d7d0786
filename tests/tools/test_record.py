"""The document that a recorded command leaves."""

from __future__ import annotations

import json
from pathlib import Path

from loomgen.toolchain.find import GXX, find_tool, tool_version
from tools.record import main


def test_the_output_is_kept_with_what_it_takes_to_repeat_it(tmp_path: Path) -> None:
    out = tmp_path / "kept" / "list.json"
    assert main([str(out), "list", "--stage", "prep"]) == 0
    document = json.loads(out.read_text())
    assert list(document) == ["commit", "command", "versions", "seconds", "exit_code", "output"]
    assert document["command"] == "loomgen list --stage prep --json"
    assert document["versions"]["g++"] == tool_version(find_tool(GXX))
    assert document["exit_code"] == 0
    assert {row["stage"] for row in document["output"]} == {"prep"}


def test_a_command_that_prints_nothing_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "list.json"
    assert main([str(out), "list", "--stage", "nothing"]) == 2
    assert not out.exists()
