"""Whole runs: a small one, and one in which a planted bug is found and shrunk; the command."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loomgen.cli import app
from loomgen.cli.project import default_root
from loomgen.emit import cuda
from loomgen.fuzz import Case, Failure, Outcome, Report, Verdict, check, from_file, fuzz

CACHE = default_root() / "build" / "fuzz"
SMALL = 60


def test_a_small_run_agrees() -> None:
    done: list[int] = []
    report = fuzz(SMALL, 0, CACHE, on_progress=lambda at, total: done.append(at))
    assert report.failure is None, report.failure
    assert report.agreed + report.refused == report.count == done[-1] == SMALL
    assert report.refused <= SMALL // 5
    assert report.nodes["Map"] > SMALL


def test_a_planted_bug_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running sums subtract; a run of one round stays in this process."""
    emit = cuda.emit_body
    monkeypatch.setattr(check, "emit_body", lambda lowered: emit(lowered).replace("total += ", "total -= "))
    report = fuzz(20, 1, CACHE, trials=25)
    assert report.failed > 0
    assert report.failure is not None
    assert report.failure.outcome.kind == "bits"
    text = report.failure.case.text
    assert "sum[" in text
    assert len(text[text.index("program: |") :].splitlines()) <= 16


FAILURE = Failure(
    case=Case(text="stage: fuzz\n", lengths=(3,), heads=(1, 1), seed=5),
    outcome=Outcome(verdict=Verdict.FAILED, kind="bits", message="seed 0: o1[0]"),
)


def use_report(monkeypatch: pytest.MonkeyPatch, failure: Failure | None) -> None:
    """What every run finds."""
    n_failed = int(failure is not None)
    report = Report(
        count=9,
        agreed=8 - n_failed,
        refused=1,
        failed=n_failed,
        kinds=Counter({"agrees": 8 - n_failed, "LG104": 1, "bits": n_failed}),
        nodes=Counter({"Map": 3, "Load": 3, "Mma": 7}),
        failure=failure,
    )
    monkeypatch.setattr("loomgen.fuzz.fuzz", lambda *args, **kwargs: report)


def test_the_command_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_report(monkeypatch, None)
    result = CliRunner().invoke(app, ["--root", str(tmp_path), "fuzz"])
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "9 stages: 8 agree, 1 refused, 0 failed",
        "  LG104: 1",
        "  bits: 0",
        "nodes: Mma 7, Load 3, Map 3",
    ]


def test_the_command_writes_what_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_report(monkeypatch, FAILURE)
    result = CliRunner().invoke(app, ["--root", str(tmp_path), "fuzz", "--json"])
    assert result.exit_code == 1
    assert "error: bits: seed 0: o1[0]\n# batch: lengths 3; heads 1/1; seed 5\n" in result.output
    assert from_file((tmp_path / "build" / "fuzz" / "mismatch.yaml").read_text()) == FAILURE.case
    report = json.loads(result.stdout)
    assert (report["failed"], report["failure"]["kind"], report["kinds"]["LG104"]) == (1, "bits", 1)
    assert list(report["nodes"]) == ["Mma", "Load", "Map"]
