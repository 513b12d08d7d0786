"""Rows of fake implementations: who is right, who repeats, who fails, what is left out."""

from __future__ import annotations

import pytest
import torch

from loomgen.bench import checks
from loomgen.bench.checks import repeats_equal
from loomgen.bench.implementations import Implementation
from loomgen.bench.run import Bench, measure_all
from tests.bench.fakes import FEW, SteadyTimer, case, drifting, raising, right

CPU = torch.device("cpu")


def bench(*implementations: Implementation) -> Bench:
    return Bench(implementations=implementations, timer=SteadyTimer(), device=CPU, settings=FEW)


def test_a_row_has_times_errors_and_repeats_of_everyone() -> None:
    row = bench(right("loomgen"), right("fla")).measure(case(3, 5, with_state=True))
    assert row.times["fla"].kernel_ms.median == 0.5
    assert row.ratios() == {"fla": 1.0}
    assert set(row.rel_l2["loomgen"]) == {"o", "state"}
    assert all(error < 1e-6 for error in row.rel_l2["loomgen"].values())
    assert row.repeats_equal == {"loomgen": True, "fla": True}
    assert row.digests["loomgen"] == row.digests["fla"] and set(row.digests["fla"]) == {"o", "state"}
    assert row.failures == {}


def test_a_case_that_is_not_timed_has_no_times() -> None:
    row = bench(right("loomgen")).measure(case(3, timed=False))
    assert row.times == {} and row.ratios() == {}
    assert row.rel_l2["loomgen"]["o"] < 1e-6


def test_other_bits_are_told() -> None:
    row = bench(drifting("loomgen"), right("fla")).measure(case(3))
    assert row.repeats_equal == {"loomgen": False, "fla": True}


def test_who_fails_is_in_failures_alone_and_the_others_are_measured() -> None:
    row = bench(right("loomgen"), raising("fla", RuntimeError("no\nkernel"))).measure(case(3))
    assert row.failures == {"fla": "RuntimeError: no kernel"}
    assert set(row.times) == set(row.rel_l2) == set(row.repeats_equal) == {"loomgen"}


def test_a_state_with_rows_of_values_is_compared_as_one_of_keys() -> None:
    state = torch.randn(2, 3, 4, 4)
    peer = Implementation(name="p", module="m", packages=(), bind=right("p").bind, state_layout="vk")
    assert torch.equal(peer.keys_first(state), state.transpose(-1, -2))


def test_nan_repeats_as_nan_and_a_sign_does_not() -> None:
    nan = torch.full((3,), float("nan"))
    assert repeats_equal(lambda: {"o": nan}, {"o": nan.clone()}, 1)
    zero = torch.zeros(3)
    assert not repeats_equal(lambda: {"o": -zero}, {"o": zero}, 1)


def test_memory_is_spoiled_before_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(checks, "spoil", lambda device: done.append(device.type))
    zero = torch.zeros(3)

    def step() -> dict[str, torch.Tensor]:
        done.append("called")
        return {"o": zero}

    assert repeats_equal(step, {"o": zero}, 2)
    assert done == ["cpu", "called"] * 2


def test_rows_that_would_run_past_the_deadline_are_named_and_not_begun() -> None:
    clock = iter([0.0, 10.0, 10.0, 25.0, 25.0]).__next__
    shown: list[int] = []
    rows, left = measure_all(
        bench(right("loomgen")),
        [case(2), case(3), case(4), case(5)],
        deadline=30.0,
        clock=clock,
        on_row=lambda rows: shown.append(len(rows)),
    )
    assert [row.case.key for row in rows] == [case(2).key, case(3).key]
    assert left == [case(4).key, case(5).key]
    assert shown == [1, 2]
