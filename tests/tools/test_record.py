"""The document that a recorded command leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from loomgen.evidence import Card
from loomgen.toolchain.find import GXX, find_tool, tool_version
from tools import record
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


def test_on_a_card_the_card_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "list.json"
    card = Card(name="NVIDIA H200", driver="580.0", clocks={"sm_mhz": 1980})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(record, "first_card", lambda: card)
    assert main(["--commit", "abc1234", str(out), "list", "--stage", "prep"]) == 0
    document = json.loads(out.read_text())
    assert (document["card"], document["driver"], document["clocks"]) == ("NVIDIA H200", "580.0", {"sm_mhz": 1980})
    assert document["commit"] == "abc1234"
