"""The gate as far as it goes without a card: what is built, which passes are run, what is written where and when."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from loomgen.bench.evidence import Run
from loomgen.bench.session import Request
from loomgen.bench.workloads import Pass
from loomgen.ops.dispatch import ACTIVATIONS, HEAD_DIMS, STEPS, CallShape
from loomgen.ops.dispatch_backward import kernels_of_kind
from loomgen.registry import load
from tests.bench.fakes import row, run_of
from tools import gpu_gate
from tools.gpu_gate import Prepared, kernels_of, main


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Those that were measured, with nothing done; a row of each is already written when the next one fails."""
    made: list[Request] = []

    def measured(request: Request, on_run: Callable[[Run], None]) -> Run:
        made.append(request)
        on_run(run_of(row(64, loomgen=0.5, fla=1.0), what=request.what, not_measured=("late",)))
        return run_of(row(64, loomgen=0.5, fla=1.0), what=request.what)

    for name, value in {
        "measure": measured,
        "require_all": lambda request: None,
        "prepare": lambda *_: Prepared(n_kernels=3, findings=None, unfinished=0, host=[]),
    }.items():
        monkeypatch.setattr(gpu_gate, name, value)
    return made


def written(folder: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def test_each_pass_has_its_document(requests: list[Request], tmp_path: Path) -> None:
    words = ["--out", str(tmp_path), "--peer", "fla", "--pass", "both", "--repeats", "7", "--commit", "abc"]
    assert main([*words, "--no-sanitizer"]) == 0
    found = written(tmp_path)
    assert list(found) == ["gpu_gate.json", "training.test.json"]
    assert [name["rows"][0]["pass"] for name in found.values()] == ["fwd", "fwdbwd"]
    assert [request.what for request in requests] == [Pass.FWD, Pass.FWDBWD]
    assert {request.settings.repeats for request in requests} == {7}
    first, second = (request.deadline for request in requests)
    assert first is not None and second is not None and first < second


def test_what_was_measured_before_a_fault_is_there(
    requests: list[Request], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(request: Request, on_run: Callable[[Run], None]) -> Run:
        on_run(run_of(row(64, loomgen=0.5), what=request.what, not_measured=("late",)))
        raise KeyboardInterrupt

    monkeypatch.setattr(gpu_gate, "measure", stopped)
    with pytest.raises(KeyboardInterrupt):
        main(["--out", str(tmp_path), "--pass", "fwdbwd"])
    document = written(tmp_path)["training.test.json"]
    assert document["not_measured"] == ["late"] and not document["checks"]["complete"]


@pytest.mark.parametrize(("words", "findings"), [([], ["clean"]), (["--no-sanitizer"], None)])
def test_what_runs_beside_the_peers_compilations(
    words: list[str], findings: list[str] | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: dict[str, Any] = {}
    for name, value in {
        "find_sanitizer": lambda: Path("compute-sanitizer"),
        "sanitize": lambda tool, deadline, passes: seen.update(passes=passes) or ["clean"],
        "build": lambda passes: len(passes),
        "jobs": lambda peers, cases, what: seen.update(jobs=(peers, len(cases), what)) or [],
        "training_host_times": lambda n_rounds: iter(["row"]),
    }.items():
        monkeypatch.setattr(gpu_gate, name, value)
    chosen = ["--out", str(tmp_path), "--pass", "fwdbwd", "--peer", "fla", "--suite", "gates", *words]
    options = gpu_gate._parser().parse_args(chosen)
    request = gpu_gate.request_of(options, Pass.FWDBWD, deadline=0.0)
    watch = gpu_gate.Stopwatch()
    found: Any = gpu_gate.prepare(options, [request], watch, deadline=0.0)
    assert (found.n_kernels, found.findings, found.unfinished, found.host) == (1, findings, 0, ["row"])
    assert seen["jobs"] == (("fla",), 5, Pass.FWDBWD)
    assert seen.get("passes") == ([Pass.FWDBWD] if findings else None)
    assert ("sanitize" in watch.seconds) == bool(findings) and "host times" in watch.seconds


def test_compilations_that_fail_are_named_and_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("loomgen.bench.warm.Job.command", lambda self: ["false"])
    monkeypatch.setattr(gpu_gate, "build", len)
    words = ["--out", str(tmp_path), "--peer", "flash_qla", "--filter", "|4/12|", "--suite", "perf", "--no-sanitizer"]
    request = gpu_gate.request_of(options := gpu_gate._parser().parse_args(words), Pass.FWD, deadline=0.0)
    found = gpu_gate.prepare(options, [request], gpu_gate.Stopwatch(), deadline=time.monotonic() + 60)
    assert found.unfinished == 1
    assert "UNFINISHED exit code 1: flash_qla, part 1 of 1: 1x4096|4/12|packed\n" in capsys.readouterr().out


BOTH = [Pass.FWD, Pass.FWDBWD]


@pytest.mark.parametrize(("passes", "n_kernels"), [(BOTH[:1], 28), (BOTH[1:], 48), (BOTH, 48)])
def test_what_is_built_is_what_calls_of_any_dim_and_dtype_may_launch(passes: list[Pass], n_kernels: int) -> None:
    registry = load("sm_90a")
    shapes = [
        CallShape(n_sequences=1, value_heads=1, head_dim=dim, activation=activation, step=step)
        for dim, activation, step in product(HEAD_DIMS, ACTIVATIONS, STEPS)
    ]
    trains = Pass.FWDBWD in passes
    wanted = {kernel.name for shape in shapes for kernel in kernels_of_kind(registry, shape, trains=trains)}
    built = [kernel.name for kernel in kernels_of(registry, passes)]
    assert set(built) == wanted and len(built) == n_kernels
