"""The run of FLA's tests, with a stand-in for FLA and tests of our own, and without a card."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.fla_plugin import DISABLED
from tools.gpu_fla_tests import TESTS, TestRow, line, main, summary

ROOT = Path(__file__).resolve().parents[2]

FLA = """
from tests.integrations.fake_fla import BaseBackend, Registry

REGISTRY = Registry()

def register(group):
    return lambda backend: REGISTRY.register(backend())

@REGISTRY.dispatched
def chunk_gated_delta_rule(*arguments, **options):
    return None
"""

CASES = """
import os
import pytest
import torch
from fla.backends import chunk_gated_delta_rule

def call(head_dim):
    x = torch.ones(1, 3, 1, head_dim, dtype=torch.bfloat16, requires_grad=True)
    gates = torch.zeros(1, 3, 1)
    return chunk_gated_delta_rule(x, x, x, gates, gates)

def test_taken():
    assert os.environ["FLA_DISABLE_BACKEND_DISPATCH"] == "1"
    assert call(64) is not None

def test_left():
    assert call(32) is None

def test_wrong():
    assert False, "on purpose"

def test_skipped():
    pytest.skip("not here")
"""

RUN = """
import sys
from pathlib import Path
from tools.gpu_fla_tests import document_row, found_first, run_tests
checkout = Path(sys.argv[1])
with found_first(checkout):
    for row in run_tests(checkout, "", 1):
        print("ROW", {name: x for name, x in document_row(row).items() if name != "seconds"})
"""


def test_each_test_tells_what_loomgen_ran_and_what_it_left(tmp_path: Path) -> None:
    for name, text in {"fla/__init__.py": "", "fla/backends.py": FLA, TESTS: CASES}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {name: x for name, x in os.environ.items() if name != DISABLED} | {"PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path)], env=environment, cwd=tmp_path, text=True, capture_output=True
    )
    rows = {row["test"]: row for row in map(eval, _rows(found.stdout))}
    none = {"calls": 0, "differentiable": 0, "left": ()}
    left = ("head dims: 32 and 32, supported is one of 64, 128 for both",)
    assert rows == {
        "test_left": {"test": "test_left", "outcome": "passed", **none, "left": left, "why": None, "ok": True},
        "test_skipped": {"test": "test_skipped", "outcome": "skipped", **none, "why": "Skipped: not here", "ok": True},
        "test_taken": {"test": "test_taken", "outcome": "passed", "calls": 1, "differentiable": 1, "left": (),
                       "why": None, "ok": True},
        "test_wrong": {"test": "test_wrong", "outcome": "failed", **none, "why": rows["test_wrong"]["why"],
                       "ok": False},
    }, found.stderr  # fmt: skip
    assert "AssertionError" in rows["test_wrong"]["why"]


def _rows(text: str) -> list[str]:
    return [line.removeprefix("ROW ") for line in text.splitlines() if line.startswith("ROW ")]


def test_a_summary_counts_the_tests_in_which_loomgen_ran() -> None:
    rows = [TestRow(test="a", outcome="passed", calls=2, differentiable=1), TestRow(test="b", outcome="skipped")]
    assert summary(rows) == "2 tests: 1 passed, 0 failed, 1 skipped; loomgen ran 2 calls in 1 of them"
    assert line(rows[0]).split() == ["a", "passed", "2", "calls,", "1", "with", "gradients"]


def test_without_a_card_it_could_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--fla", str(tmp_path), "--out", str(tmp_path / "out"), "--commit", "none"]) == 2
    assert "nvidia-smi" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
