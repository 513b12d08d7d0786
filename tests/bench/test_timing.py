"""Who is called when, and what becomes of the samples."""

from __future__ import annotations

import time

import pytest
import torch

from loomgen.bench.gpu import DeviceEvent, ProfileMismatch, host_microseconds, split_calls
from loomgen.bench.timing import (
    KernelSum,
    KernelTime,
    Settings,
    Spread,
    geometric_mean,
    kernel_sums,
    measure_times,
    rounds,
    spread,
)
from tests.bench.fakes import FEW, FakeTimer

FLUSH = "void FillFunctor<signed char>(int)"


def test_every_round_calls_everyone_and_starts_one_further() -> None:
    assert "".join(rounds(("a", "b", "c"), 4)) == "abcbcacababc"


def test_calls_are_interleaved_for_every_kind_of_time() -> None:
    timer = FakeTimer({"a": [10.0], "b": [20.0]})
    measure_times({"a": lambda: "a", "b": lambda: "b"}, timer, FEW)
    orders = {what: "".join(owner for kind, owner in timer.log if kind == what) for what in ("call", "host", "profile")}
    assert orders == {"call": "abbaab", "host": "abba", "profile": "abbaab"}


def test_warm_ups_come_first_and_are_not_timed() -> None:
    called: list[str] = []
    timer = FakeTimer({"a": [1.0]})

    def call() -> str:
        called.append("a")
        return "a"

    measure_times({"a": call}, timer, Settings(warmups=4, calls=1, profiled=1, host_calls=1))
    assert (len(called), len(timer.log)) == (7, 3)


def test_samples_stay_with_who_was_called() -> None:
    timer = FakeTimer({"a": [1000.0, 3000.0, 2000.0], "b": [5000.0]})
    found = measure_times({"a": lambda: "a", "b": lambda: "b"}, timer, FEW)
    assert found["a"].call_ms == Spread(2.0, 1.0, 3.0)
    assert found["a"].host_us == Spread(2000.0, 1000.0, 3000.0)
    assert found["a"].kernel_ms == Spread(2.1, 1.1, 3.1)
    assert found["b"].kernel_ms.median == 5.1


def test_the_kernels_shown_are_those_of_the_median_call_longest_first() -> None:
    found = measure_times({"a": lambda: "a"}, FakeTimer({"a": [7.0, 900.0, 50.0]}), FEW)
    assert found["a"].kernels == (KernelTime("long", 100.0), KernelTime("k", 50.0))


def test_sums_go_by_name_in_order_of_launch_and_their_medians_are_over_all_calls() -> None:
    def call(*us: float) -> list[KernelTime]:
        return [KernelTime(name, time) for name, time in zip(("prep", "scan", "scan", "grads"), us, strict=True)]

    calls = [call(1, 2, 3, 9), call(2, 4, 5, 8), call(3, 1, 2, 30)]
    assert kernel_sums(calls) == (KernelSum("prep", 1, 2.0), KernelSum("scan", 2, 5.0), KernelSum("grads", 1, 9.0))


def test_the_median_of_an_even_number_lies_between_two() -> None:
    assert spread([4.0, 1.0, 2.0, 9.0]) == Spread(3.0, 1.0, 9.0)


def test_the_geometric_mean_of_ratios() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([0.25, 0.5, 1.0]) == pytest.approx(0.5)


def test_kernels_belong_to_the_call_after_whose_flush_they_ran() -> None:
    events = [
        DeviceEvent("late", 40.0, 47.0),
        DeviceEvent("before", 0.0, 1.0),
        DeviceEvent(FLUSH, 2.0, 9.0),
        DeviceEvent("first", 10.0, 13.0),
        DeviceEvent("Memset", 14.0, 15.0),
        DeviceEvent(FLUSH, 30.0, 38.0),
    ]
    first, second = split_calls(events, 2)
    assert first == (KernelTime("first", 3.0), KernelTime("Memset", 1.0))
    assert second == (KernelTime("late", 7.0),)


def test_a_profile_that_lost_a_flush_is_refused() -> None:
    with pytest.raises(ProfileMismatch, match="of 2 calls shows 1 L2"):
        split_calls([DeviceEvent(FLUSH, 0.0, 1.0)], 2)


def test_calls_in_a_row_share_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: order.append("wait"))
    monkeypatch.setattr(time, "perf_counter", iter([1.0, 1.0005]).__next__)
    found = host_microseconds(lambda: order.append("call"), 5, after=lambda: order.append("before"))
    assert found == pytest.approx(100.0)
    assert order == ["before", "wait", *["call"] * 5]
