"""What training calls cost the host, with the emulator in the card's place."""

from __future__ import annotations

import pytest
import torch

from loomgen.bench.timing import Spread
from loomgen.verify.op import OpCase
from tools import host_time
from tools.host_time import in_calling_thread, training, training_host_times
from tools.operator_calls import make_call

SMALL = OpCase(name="small", lengths=(3, 5), head_dim=64)


def test_a_training_call_gives_the_gradients_of_all_inputs() -> None:
    call = make_call(SMALL)
    gradients = training(call)()
    assert isinstance(gradients, tuple)
    shapes = [call.tensors[name] for name in ("q", "k", "v", "g", "beta", "initial_state")]
    assert [x.shape for x in gradients] == [x.shape for x in shapes if x is not None]
    assert all(x.isfinite().all() and x.any() for x in gradients)


@pytest.mark.parametrize(("least", "ok"), [(150.0, True), (151.0, False)])
def test_the_least_median_is_bounded(monkeypatch: pytest.MonkeyPatch, least: float, ok: bool) -> None:
    monkeypatch.setattr(host_time, "GPU", torch.device("cpu"))
    monkeypatch.setattr(
        host_time,
        "medians_in_turn",
        lambda calls, n, in_a_row=1, after=None: dict.fromkeys(calls, Spread(170.0, least, 300.0)),
    )
    row, alone, after = training_host_times([SMALL], n_rounds=1)
    found = {"median_us": least, "middle_us": 170.0, "largest_us": 300.0}
    assert row.measured == {**found, "in_a_row_us": least, "calling_thread_us": least}
    assert (row.check, row.case, row.bound, row.ok) == ("training host time", "small", 150.0, ok)
    assert (alone.case, alone.bound, alone.ok) == ("torch alone, small", None, True)
    assert (after.case, after.measured, after.ok) == ("torch alone after small", found, True)


def test_a_backward_may_run_in_the_calling_thread() -> None:
    seen: list[bool] = []
    in_calling_thread(lambda: seen.append(torch.autograd.is_multithreading_enabled()))()
    assert seen == [False] and torch.autograd.is_multithreading_enabled()
