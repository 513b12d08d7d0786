"""Training calls: what a step gives, what it is compared with, and what the gate claims of them."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from loomgen.bench.checks import errors_of
from loomgen.bench.evidence import Row, document
from loomgen.bench.implementations import Implementation
from loomgen.bench.inputs import make_gradients, make_inputs
from loomgen.bench.run import Bench
from loomgen.bench.sanitizer import finding_of
from loomgen.bench.small_calls import SmallCall
from loomgen.bench.steps import training_step
from loomgen.bench.table import table
from loomgen.bench.training_reference import training_reference
from loomgen.bench.workloads import Case, Pass, Suite
from loomgen.golden import recurrent_gated_delta_rule
from tests.bench.fakes import FEW, SteadyTimer, case, differentiable, row, run_of, times
from tools.gate_checks import checks_of
from tools.gpu_evidence import Row as HostRow

CPU = torch.device("cpu")
ROOT = Path(__file__).resolve().parents[2]
CLEAN = finding_of("memcheck", 0, "========= ERROR SUMMARY: 0 errors")
SLOW_HOST = HostRow(check="training host time", case="c", measured={"median_us": 200.0}, bound=150.0, ok=False)
GRADIENTS = ("dq", "dk", "dv", "dg", "dbeta", "dh0")


def bench(*implementations: Implementation) -> Bench:
    return Bench(implementations=implementations, timer=SteadyTimer(), device=CPU, what=Pass.FWDBWD, settings=FEW)


@pytest.mark.parametrize("with_state", [False, True])
def test_the_reference_is_autograd_of_the_recurrence(with_state: bool) -> None:
    some = case(3, 0, 66, with_state=with_state)
    x = make_inputs(some, CPU)
    given = make_gradients(some, x)
    names = ("q", "k", "v", "g", "beta", "initial_state")[: 6 if with_state else 5]
    leaves: dict[str, Any] = {name: getattr(x, name).double().requires_grad_() for name in names}
    o, state = recurrent_gated_delta_rule(**leaves, cu_seqlens=x.cu_seqlens, use_qk_l2norm=True)
    outputs, wanted = ([o, state], [given.o.double(), given.state]) if with_state else ([o], [given.o.double()])
    gradients = torch.autograd.grad(outputs, list(leaves.values()), [None if t is None else t.double() for t in wanted])
    found = training_reference(x, given)
    assert list(found) == ["o", "state", *GRADIENTS[: len(names)]]
    for name, expect in zip(found, (o, state, *gradients), strict=True):
        torch.testing.assert_close(found[name].view(expect.shape), expect, rtol=1e-8, atol=1e-10)


def test_a_training_call_has_times_errors_and_bits_of_all_gradients() -> None:
    row = bench(differentiable("loomgen"), differentiable("fla", wrong=1.5)).measure(case(3, 70, with_state=True))
    assert row.failures == {}
    assert set(row.rel_l2["loomgen"]) == set(row.digests["loomgen"]) == {"o", "state", *GRADIENTS}
    assert max(row.rel_l2["loomgen"].values()) < 5e-3  # gradients are rounded to bf16
    assert row.rel_l2["fla"]["dq"] > 0.4
    assert set(row.repeats_equal) == {"loomgen", "fla"}
    assert row.times["loomgen"].peak_bytes == 2**20


def test_without_states_there_is_no_gradient_of_one_and_the_leaves_of_the_inputs_are_left_alone() -> None:
    some = case(3)
    x = make_inputs(some, CPU)
    given = make_gradients(some, x)
    results = training_step(differentiable("p"), x, given, final=False)()
    assert list(results) == ["o", *GRADIENTS[:-1]]
    assert not x.q.requires_grad and not results["o"].requires_grad
    assert errors_of(results, training_reference(x, given)).keys() == results.keys()


@pytest.mark.parametrize("twist", ["correlated keys", "negative eigenvalues"])
def test_hard_inputs_differ_where_they_say(twist: Any) -> None:
    usual = case(40)
    hard = Case(suite=Suite.HARD, workload=usual.workload, twist=twist)
    x, y = make_inputs(usual, CPU), make_inputs(hard, CPU)
    assert torch.equal(x.q, y.q) and torch.equal(x.v, y.v) and torch.equal(x.g, y.g)
    keys = torch.nn.functional.normalize(y.k[0, 1:, 0].float(), dim=-1)
    cosine = float((keys @ keys.T).triu(1).sum() / (39 * 38 / 2))
    if twist == "correlated keys":
        assert 0.4 < cosine < 0.6 and torch.equal(x.beta, y.beta)
    else:
        assert 1 < float(y.beta.max()) < 2 and torch.equal(x.k, y.k)


def test_a_training_call_in_the_emulator_is_right() -> None:
    call = SmallCall(lengths=(3, 66), head_dim=64, activation=torch.float16)
    for save in ("minimal", "states"):
        assert call.error(CPU, Pass.FWDBWD, save=save) < 5e-3


def training_row(length: int = 64, suite: Suite = Suite.PERF, **kernel_ms: float) -> Row:
    found = row(length, **kernel_ms)
    errors = {name: {"o": 1e-3, "state": 2e-3, **dict.fromkeys(GRADIENTS, 3e-3)} for name in kernel_ms}
    return dataclasses.replace(found, case=dataclasses.replace(found.case, suite=suite), rel_l2=errors)


def failing(checks: dict[str, bool]) -> list[str]:
    return [name for name, holds in checks.items() if not holds]


def test_all_checks_hold_of_a_fast_right_small_and_clean_training_call() -> None:
    run = run_of(training_row(loomgen=0.5, loomgen_states=0.4, fla=1.0, flash_qla=0.4), what=Pass.FWDBWD)
    host = dataclasses.replace(SLOW_HOST, ok=True)
    names = ("complete", "accurate", "repeats_equal", "sanitizer_clean", "host_time", "no_row_slower_than_fla",
             "memory_at_most_fla")  # fmt: skip
    assert checks_of(run, [CLEAN], [host]) == dict.fromkeys(names, True)
    assert "sanitizer_clean" not in checks_of(run, None, [host])


def test_what_does_not_hold_of_a_training_call_is_told_apart() -> None:
    good = training_row(loomgen=0.5, fla=1.0)
    wrong = dataclasses.replace(good, rel_l2={"loomgen": {**good.rel_l2["loomgen"], "dk": 6e-3}})
    large = dataclasses.replace(good, times={**good.times, "loomgen": times(0.5, peak_bytes=1001)})
    slow = training_row(65, loomgen=1.0, fla=1.0)
    for bad, name in ((wrong, "accurate"), (large, "memory_at_most_fla"), (slow, "no_row_slower_than_fla")):
        assert failing(checks_of(run_of(good, bad, what=Pass.FWDBWD), [CLEAN])) == [name]
    assert failing(checks_of(run_of(good, what=Pass.FWDBWD), [CLEAN], [SLOW_HOST])) == ["host_time"]


def test_hard_rows_are_held_against_the_peers_errors() -> None:
    hard = training_row(suite=Suite.HARD, loomgen=0.5, fla=1.0)
    large = {"loomgen": {"o": 1.1e-2, "dg": 2e-2}, "fla": {"o": 1e-2, "dg": 1.9e-2}}
    close = dataclasses.replace(hard, times={}, rel_l2=large)
    assert checks_of(run_of(close, what=Pass.FWDBWD), None)["accurate_as_fla"]
    worse = dataclasses.replace(close, rel_l2={**large, "loomgen": {"o": 1.3e-2, "dg": 2e-2}})
    assert failing(checks_of(run_of(worse, what=Pass.FWDBWD), None)) == ["accurate_as_fla"]
    lost = dataclasses.replace(close, rel_l2={who: {"o": math.inf, "dg": 1e-2} for who in large})
    assert failing(checks_of(run_of(lost, what=Pass.FWDBWD), None)) == ["accurate_as_fla"]


def test_the_document_of_training_calls_fits_the_schema() -> None:
    schema = json.loads((ROOT / "docs" / "evidence" / "bench.schema.json").read_text())
    run = run_of(training_row(loomgen=0.5, loomgen_states=0.4, fla=1.0), what=Pass.FWDBWD)
    content = {**document(run), "host": [dataclasses.asdict(SLOW_HOST)], "checks": checks_of(run, [CLEAN], [SLOW_HOST])}
    jsonschema.validate(content, schema)
    (found,) = content["rows"]
    work = run.rows[0].case.workload
    assert found["pass"] == "fwdbwd" and found["flops"] == 35 * work.flops() // 10
    assert found["io_bytes"] == 64 * (3 * (2 * 128 * 2 + 2 * 128 * 2 + 2 * 2 * 4) + 2 * 2 * 128 * 2)
    assert found["kernel_sums"]["loomgen"][0] == {"name": "output", "launches": 1, "us": 200.0}
    assert list(found["ratios"]) == list(content["summary"]) == ["fla"]


def test_the_table_of_training_calls_shows_gradients_and_memory() -> None:
    run = run_of(training_row(loomgen=0.5, loomgen_states=0.4, fla=1.0), what=Pass.FWDBWD)
    header, line, *_ = table(run).splitlines()
    columns = [word.strip() for word in header.split("  ") if word]
    assert columns[-6:] == ["fla kernel / call ms", "/ fla", "error of o", "of a gradient", "memory / fla", "repeats"]
    assert line.split()[-6:] == ["0.500", "1.00e-03", "dq", "3.00e-03", "1.000", "equal"]
