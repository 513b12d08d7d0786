"""``loomgen bench`` from the command line, with measuring replaced."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from loomgen.bench.evidence import Run
from loomgen.bench.implementations import MissingPeer
from loomgen.bench.session import Request
from loomgen.bench.workloads import Pass
from tests.bench.fakes import row, run_of
from tests.cli.command import loomgen


def use_run(monkeypatch: pytest.MonkeyPatch, run: Run) -> list[Request]:
    requests: list[Request] = []

    def measured(request: Request, on_run: Callable[[Run], None]) -> Run:
        requests.append(request)
        on_run(run)
        return run

    monkeypatch.setattr("loomgen.bench.session.measure", measured)
    return requests


def test_options_reach_the_run_and_the_document_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requests = use_run(monkeypatch, run_of(row(64, loomgen=0.5, fla=1.0)))
    out = tmp_path / "bench.json"
    words = ["--peer", "fla", "--peer", "flash_qla", "--suite", "gates", "--filter", "ragged7", "--commit", "abc"]
    words += ["--pass", "fwdbwd"]
    result = loomgen(tmp_path, "bench", *words, "--out", str(out))
    assert result.exit_code == 0, result.output
    (request,) = requests
    assert request.peers == ("fla", "flash_qla") and request.commit == "abc"
    assert request.what is Pass.FWDBWD
    assert [case.key for case in request.cases()] == ["ragged7=30086|16/32|packed|mamba"]
    assert "geometric mean 0.500" in result.output
    assert json.loads(out.read_text())["summary"]["fla"]["geometric_mean"] == 0.5


def test_a_run_whose_repeats_differ_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_run(monkeypatch, run_of(row(64, fla=1.0)))
    assert loomgen(tmp_path, "bench", "--out", str(tmp_path / "bench.json")).exit_code == 1


def test_a_missing_peer_is_a_missing_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def measured(request: Request, on_run: Callable[[Run], None]) -> Run:
        raise MissingPeer("fla: install fla-core")

    monkeypatch.setattr("loomgen.bench.session.measure", measured)
    result = loomgen(tmp_path, "bench", "--peer", "fla", "--out", str(tmp_path / "bench.json"))
    assert result.exit_code == 3
    assert "install fla-core" in result.output


def test_where_no_document_can_be_written_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    requests = use_run(monkeypatch, run_of(row(64, loomgen=0.5, fla=1.0)))
    result = loomgen(tmp_path, "bench", "--out", str(tmp_path))
    assert result.exit_code == 2 and "--out" in result.output and "expected a file" in " ".join(result.output.split())
    assert not requests


@pytest.mark.parametrize("name", ["bench.png", "bench", ".json"])
def test_a_document_is_json_and_the_picture_lies_beside_it(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requests = use_run(monkeypatch, run_of(row(64, loomgen=0.5, fla=1.0)))
    result = loomgen(tmp_path, "bench", "--out", name)
    assert result.exit_code == 2 and f"{name}: want a name that ends in .json" in " ".join(result.output.split())
    assert not requests
