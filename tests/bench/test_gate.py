"""What the gate claims of a run, what runs beside it, and how a lack is told."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from loomgen.bench.evidence import document
from loomgen.bench.implementations import PEERS, MissingPeer, NoBackward, UnknownPeer
from loomgen.bench.sanitizer import finding_of
from loomgen.bench.session import NoRows, Request, require_all
from loomgen.bench.small_calls import small_calls
from loomgen.bench.warm import Compilations, jobs, parse_job, share
from loomgen.bench.workloads import Pass, Suite, select
from loomgen.ops.dispatch import CallShape, scan_variant
from tests.bench.fakes import row, run_of
from tools.gate_checks import checks_of
from tools.gpu_gate import main

ROOT = Path(__file__).resolve().parents[2]
CLEAN = finding_of("memcheck", 0, "========= ERROR SUMMARY: 0 errors")
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="tells what a machine without a GPU is told")


def test_all_checks_hold_of_a_fast_right_and_clean_run() -> None:
    checks = checks_of(run_of(row(64, loomgen=0.5, fla=1.0)), [CLEAN])
    assert checks == {
        "complete": True,
        "accurate": True,
        "repeats_equal": True,
        "sanitizer_clean": True,
        "no_row_slower_than_fla": True,
        "mean_against_fla": True,
    }


def failing(checks: dict[str, bool]) -> list[str]:
    return [name for name, holds in checks.items() if not holds]


def test_one_slow_row_and_a_slow_mean_are_told_apart() -> None:
    fast, slow = row(64, loomgen=0.1, fla=1.0), row(65, loomgen=1.1, fla=1.0)
    assert failing(checks_of(run_of(fast, slow), [CLEAN])) == ["no_row_slower_than_fla"]
    assert failing(checks_of(run_of(row(64, loomgen=0.9, fla=1.0)), [CLEAN])) == ["mean_against_fla"]


@pytest.mark.parametrize("errors", [{}, {"o": 6e-3}, {"o": 1e-3, "state": 5e-3}, {"o": math.nan}, {"o": math.inf}])
def test_a_wrong_result_or_none_is_not_accurate(errors: dict[str, float]) -> None:
    wrong = dataclasses.replace(row(64, loomgen=0.5), rel_l2={"loomgen": errors})
    assert failing(checks_of(run_of(wrong), [CLEAN])) == ["accurate"]


def test_failures_and_rows_left_out_are_incomplete() -> None:
    failed = dataclasses.replace(row(64, loomgen=0.5), failures={"fla": "no"})
    assert failing(checks_of(run_of(failed), [CLEAN])) == ["complete"]
    assert failing(checks_of(run_of(row(64, loomgen=0.5), not_measured=("late",)), [CLEAN])) == ["complete"]
    assert failing(checks_of(run_of(), [])) == ["complete", "sanitizer_clean"]


def test_the_gate_s_document_fits_the_schema() -> None:
    schema = json.loads((ROOT / "docs" / "evidence" / "bench.schema.json").read_text())
    run = run_of(row(64, loomgen=0.5, fla=1.0))
    content: dict[str, Any] = {
        **document(run),
        "kernels_built": 3,
        "seconds": {"build": 1.5},
        "unfinished_peer_compilations": 0,
        "sanitizer": [dataclasses.asdict(CLEAN)],
        "checks": checks_of(run, [CLEAN]),
    }
    jsonschema.validate(content, schema)


@pytest.mark.parametrize(
    ("returncode", "output", "errors", "ok"),
    [
        (0, "x\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0, True),
        (0, "========= RACECHECK SUMMARY: 2 hazards displayed (0 errors, 2 warnings)", 2, False),
        (9, "========= ERROR SUMMARY: 12 errors", 12, False),
        (1, "========= ERROR SUMMARY: 0 errors", 0, False),
        (0, "no tool spoke", None, False),
    ],
)
def test_clean_is_what_the_sanitizer_says_is_clean(returncode: int, output: str, errors: int | None, ok: bool) -> None:
    found = finding_of("racecheck", returncode, output)
    assert (found.errors, found.ok, found.output) == (errors, ok, "" if ok else output)


def test_the_sanitizer_sees_every_variant_of_the_scan() -> None:
    shapes = [
        CallShape(
            n_sequences=len(call.lengths), value_heads=4, head_dim=call.head_dim, activation=call.activation,
            step=call.step,
        )
        for call in small_calls()
    ]  # fmt: skip
    assert {scan_variant(shape) for shape in shapes} == {"r32k2", "r32k1", "r64k1"}


def test_compilations_cover_every_case_and_share_its_configurations() -> None:
    cases = select([Suite.PERF], ["4x4096|8/16", "1x4096"])
    found = jobs(["fla"], cases)
    assert len(found) == 3 * 3
    assert jobs(["loomgen_states"], cases) == []
    assert {case.key for job in found if job.part == 0 for case in job.cases} == {case.key for case in cases}
    assert sorted(n for part in range(3) for n in share(range(8), part, 3)) == list(range(8))
    assert share(["only"], 2, 3) == ["only"]


def test_each_case_of_flash_qla_has_a_process() -> None:
    (alone,) = jobs(["flash_qla"], select([Suite.PERF], ["|4/8|"]))
    assert [case.key for case in alone.cases] == ["1x65536|4/8|packed"]
    found = jobs(["flash_qla"], select([Suite.PERF], ["|16/32|dense"]))
    assert {(job.part, job.parts) for job in found} == {(0, 1)}
    assert [[case.workload.label for case in job.cases] for job in found] == [
        ["4x4096"], ["8x4096"], ["16x4096"], ["32x512"], ["128x128"],
    ]  # fmt: skip


def test_a_job_survives_its_command_line() -> None:
    (job, *_) = jobs(["fla"], select([Suite.GATES], ["ragged7"]), Pass.FWDBWD)
    assert job.what is Pass.FWDBWD
    assert parse_job(job.command()[3:]) == job


def test_no_compilation_outlives_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loomgen.bench.warm.Job.command", lambda self: ["sleep", "60"])
    job = "flash_qla, part 1 of 1: 1x65536|4/8|packed"
    with Compilations(jobs(["flash_qla"], select([Suite.PERF], ["|4/8|"]))) as compilations:
        assert compilations.unfinished(deadline=0.0) == [f"not done: {job}"]
    assert compilations.unfinished(deadline=0.0) == [f"exit code -9: {job}"]


@pytest.mark.parametrize(("at_once", "ok"), [(1, True), (3, False)])
def test_compilations_wait_for_a_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at_once: int, ok: bool
) -> None:
    alone = f"mkdir {tmp_path}/alone && sleep 0.3 && rmdir {tmp_path}/alone"
    monkeypatch.setattr("loomgen.bench.warm.Job.command", lambda self: ["sh", "-c", alone])
    with Compilations(jobs(["fla"], select([Suite.PERF], ["|4/12|"])), at_once) as compilations:
        assert (compilations.unfinished(deadline=time.monotonic() + 60) == []) == ok


def test_compilations_that_are_done_are_not_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loomgen.bench.warm.Job.command", lambda self: ["test", str(self.part), "-ne", "1"])
    with Compilations(jobs(["fla"], select([Suite.PERF], ["|4/12|"]))) as compilations:
        unfinished = compilations.unfinished(deadline=time.monotonic() + 60)
    assert unfinished == ["exit code 1: fla, part 2 of 3: 1x4096|4/12|packed"]


def test_a_long_row_is_called_only_where_no_other_has_its_batch() -> None:
    by_layout = {job.cases[0].workload.layout: job for job in jobs(["fla"], select([Suite.PERF], ["|16/32|"]))}
    called = {layout: [case.workload.label for case in job.cases] for layout, job in by_layout.items()}
    assert called["dense"] == ["4x4096", "8x4096", "16x4096", "32x512", "128x128"]
    assert "16x4096" not in called["packed"] and "1x16384" in called["packed"]


def test_a_peer_that_is_not_installed_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fla", None)
    monkeypatch.setenv("FLA_FLASH_QLA", "1")
    with pytest.raises(MissingPeer, match=r"fla: fla\.ops\.gated_delta_rule cannot be imported .* fla-core, triton"):
        PEERS["fla"].require()


def test_a_peer_that_nobody_knows_is_an_error_that_says_who_there_is() -> None:
    """Whether or not there is a GPU."""
    request = Request(peers=("flash",), suites=(Suite.PERF,), commit="c", command="d")
    with pytest.raises(UnknownPeer, match="'flash'; peers: fla, flash_qla"):
        require_all(request)


def test_a_filter_that_leaves_nothing_is_an_error() -> None:
    request = Request(peers=(), suites=(Suite.PERF,), filters=("x" * 5,), commit="c", command="d")
    with pytest.raises(NoRows, match="no row of perf has a key with 'xxxxx' in it"):
        request.cases()


def test_a_peer_without_a_backward_is_refused_for_a_training_call() -> None:
    request = Request(peers=("flashinfer",), suites=(Suite.PERF,), what=Pass.FWDBWD, commit="c", command="d")
    with pytest.raises(NoBackward, match="flashinfer has no backward: it cannot be measured in fwdbwd"):
        request.implementations()


@needs_no_gpu
def test_the_gate_could_not_run_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path)]) == 2
    assert "no NVIDIA GPU" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
