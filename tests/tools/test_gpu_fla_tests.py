"""The run of FLA's tests, with a stand-in for FLA and tests of our own, and without a card."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from loomgen.evidence import Card
from tools import gpu_fla_tests
from tools.fla_plugin import DISABLED
from tools.fla_rows import Collector, Found, TestRow, line, summary
from tools.gpu_fla_tests import TESTS, main

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

@pytest.mark.parametrize(("D", "dtype"), [(60, torch.half), (64, torch.float), (64, torch.half), (32, torch.half)])
def test_of(D, dtype):
    pass
"""

RUN = """
import sys
from pathlib import Path
from tools.fla_rows import Collector, document_row
from tools.gpu_fla_tests import found_first, run_tests
checkout, deadline = Path(sys.argv[1]), float(sys.argv[2])
shown = []
with found_first(checkout):
    collector = Collector(on_row=shown.append)
    run_tests(checkout, sys.argv[3], 1, collector, deadline)
for row in collector.found().rows:
    print("ROW", {name: x for name, x in document_row(row).items() if name != "seconds"})
print("NOT_RUN", collector.found().not_run)
print("SHOWN", [(len(found.rows), len(found.not_run)) for found in shown])
"""


def run_stand_in(tmp_path: Path, *, deadline: str = "inf", expression: str = "") -> subprocess.CompletedProcess[str]:
    for name, text in {"fla/__init__.py": "", "fla/backends.py": FLA, TESTS: CASES}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {name: x for name, x in os.environ.items() if name != DISABLED} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", RUN, str(tmp_path), deadline, expression]
    return subprocess.run(command, env=environment, cwd=tmp_path, text=True, capture_output=True)


def printed(found: subprocess.CompletedProcess[str], name: str) -> list[Any]:
    lines = [line.removeprefix(f"{name} ") for line in found.stdout.splitlines() if line.startswith(f"{name} ")]
    assert lines or name == "ROW", found.stderr
    return list(map(eval, lines))


def test_each_test_tells_what_loomgen_ran_and_what_it_left(tmp_path: Path) -> None:
    found = run_stand_in(tmp_path, expression="not test_of")
    rows = {row["test"]: row for row in printed(found, "ROW")}
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
    assert printed(found, "SHOWN") == [[(1, 3), (2, 2), (3, 1), (4, 0)]]


def test_no_test_is_begun_after_the_deadline_and_those_that_loomgen_can_run_come_first(tmp_path: Path) -> None:
    found = run_stand_in(tmp_path, deadline="0")
    assert printed(found, "ROW") == [] and printed(found, "SHOWN") == [[]]
    assert printed(found, "NOT_RUN") == [
        (
            "test_of[64-dtype2]", "test_taken", "test_left", "test_wrong", "test_skipped", "test_of[60-dtype0]",
            "test_of[64-dtype1]", "test_of[32-dtype3]",
        )
    ]  # fmt: skip


def test_workers_tell_which_tests_there_are() -> None:
    collector = Collector()
    collector.pytest_xdist_node_collection_finished(["file::a[1]", "file::b"])
    assert collector.found() == Found(rows=(), not_run=("a[1]", "b"))


def test_the_layer_is_written_before_the_first_test_and_all_of_it_after_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card = Card(name="NVIDIA H200", driver="1", clocks={})
    layer, tested = (TestRow(test=name, outcome="passed", calls=1) for name in ("layer", "a"))
    path = tmp_path / "fla_tests.h200.json"
    written = []

    def run_tests(checkout: Path, expression: str, workers: int, collector: Collector, deadline: float) -> None:
        written.append(json.loads(path.read_text()))
        collector.chosen, collector.rows = ("a", "b"), {"a": tested}
        collector.on_row(collector.found())
        written.append(json.loads(path.read_text()))

    monkeypatch.setattr(gpu_fla_tests, "first_card", lambda: card)
    monkeypatch.setattr(gpu_fla_tests, "built_kernels", lambda: None)
    monkeypatch.setattr(gpu_fla_tests, "layer_row", lambda: layer)
    monkeypatch.setattr(gpu_fla_tests, "run_tests", run_tests)
    assert main(["--fla", str(tmp_path), "--out", str(tmp_path), "--commit", "none", "--minutes", "9.5"]) == 1
    assert [([row["test"] for row in one["rows"]], one["not_run"]) for one in written] == [
        (["layer"], [TESTS]),
        (["layer", "a"], ["b"]),
    ]
    assert written[1] == json.loads(path.read_text())
    assert written[1]["command"].endswith("--commit none --minutes 9.5")
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "NOT RUN b",
        summary(Found(rows=(layer, tested), not_run=("b",))),
    ]


def test_a_layer_that_fla_cannot_run_is_a_row_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare_layer(device: torch.device) -> None:
        raise RuntimeError(f"nothing runs on {device}")

    monkeypatch.setattr(gpu_fla_tests, "compare_layer", compare_layer)
    row = gpu_fla_tests.layer_row()
    assert not row.ok and row.why == "RuntimeError: nothing runs on cuda:0"


def test_a_summary_counts_the_tests_in_which_loomgen_ran() -> None:
    rows = [TestRow(test="a", outcome="passed", calls=2, differentiable=1), TestRow(test="b", outcome="skipped")]
    text = "2 tests: 1 passed, 0 failed, 1 skipped; loomgen ran 2 calls in 1 of them"
    assert summary(Found(rows=tuple(rows))) == text
    assert summary(Found(rows=tuple(rows), not_run=("c",))) == f"{text}; NOT COMPLETE, 1 not run"
    assert line(rows[0]).split() == ["a", "passed", "2", "calls,", "1", "with", "gradients"]


def test_a_run_is_ok_where_every_test_ran_none_failed_and_loomgen_was_called() -> None:
    ours, skipped = TestRow(test="a", outcome="passed", calls=1), TestRow(test="b", outcome="skipped")
    assert Found(rows=(ours, skipped)).ok
    assert not Found(rows=(ours, skipped), not_run=("c",)).ok
    assert not Found(rows=(skipped,)).ok
    assert not Found(rows=(ours, TestRow(test="c", outcome="failed"))).ok


def test_without_a_card_it_could_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--fla", str(tmp_path), "--out", str(tmp_path / "out"), "--commit", "none"]) == 2
    assert "nvidia-smi" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
