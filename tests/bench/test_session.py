"""A whole run, with the card replaced by the CPU."""

from __future__ import annotations

import pytest
import torch

from loomgen.bench import session
from loomgen.bench.evidence import Run
from loomgen.bench.gpu import Ceilings
from loomgen.bench.session import Request, measure
from loomgen.bench.workloads import Case, Suite
from loomgen.evidence import Card
from tests.bench.fakes import FEW, SteadyTimer, case, right

CEILINGS = Ceilings(copy_tb_per_s=4.0, matmul_tflops=800.0)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    cases: tuple[Case, ...] = (case(2), case(3))
    for name, value in {
        "select": lambda suites, filters: cases,
        "require_gpu": lambda: None,
        "OURS": right("loomgen"),
        "peer_named": right,
        "GpuTimer": SteadyTimer,
        "measure_ceilings": lambda timer: CEILINGS,
        "first_card": lambda: Card(name="NVIDIA Test", driver="1", clocks={}),
        "DEVICE": torch.device("cpu"),
    }.items():
        monkeypatch.setattr(session, name, value)


def test_a_run_shows_after_each_row_what_is_still_to_come(card: None) -> None:
    shown: list[Run] = []
    request = Request(peers=("fla", "fla"), suites=(Suite.PERF,), commit="abc", command="c", settings=FEW)
    run = measure(request, shown.append)
    assert [(len(part.rows), part.not_measured) for part in shown] == [(1, (case(3).key,)), (2, ())]
    assert run == shown[-1]
    assert list(run.rows[0].times) == ["loomgen", "fla"]
    assert (run.card.name, run.commit, run.ceilings) == ("NVIDIA Test", "abc", CEILINGS)
    assert run.versions["torch"] == torch.__version__


def test_nothing_is_begun_past_the_deadline(card: None) -> None:
    request = Request(peers=(), suites=(Suite.PERF,), commit="abc", command="c", settings=FEW, deadline=0.0)
    run = measure(request)
    assert (run.rows, run.not_measured) == ((), (case(2).key, case(3).key))
