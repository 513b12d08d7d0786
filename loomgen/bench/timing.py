"""Interleaved timing: every implementation is called once a round, in rounds that start at another one each."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Timed = Callable[[], object]


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel, copy or fill that the GPU ran in a call."""

    name: str
    us: float


@dataclass(frozen=True, slots=True)
class KernelSum:
    """All launches of one kernel in a call: how many, and their time in all."""

    name: str
    launches: int
    us: float


class Timer(Protocol):
    """Times calls that start with none of their inputs in the L2 cache."""

    def call_ms(self, call: Timed) -> float:
        """Milliseconds between GPU events before and after one call."""

    def host_us(self, call: Timed) -> float:
        """Microseconds until one call returns, with nothing queued before it."""

    def profile(self, calls: Sequence[Timed]) -> list[tuple[KernelTime, ...]]:
        """What the GPU ran in each of ``calls``, in their order."""

    def peak_bytes(self, call: Timed) -> int:
        """The most memory that was allocated at once during one call, above what was before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How often calls are made: to warm up, for call times, for kernel times, for host times, for our bits and for
    peers'."""

    warmups: int = 5
    calls: int = 20
    profiled: int = 7
    host_calls: int = 200
    repeats: int = 20
    peer_repeats: int = 20


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest of some samples."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """One implementation's times on one row; ``kernels`` are those of its median profiled call, longest first; of
    ``kernel_sums``, by name in the order of their first launch there, each time is the median of all profiled calls.
    """

    call_ms: Spread
    kernel_ms: Spread
    host_us: Spread
    kernels: tuple[KernelTime, ...]
    kernel_sums: tuple[KernelSum, ...]
    peak_bytes: int


def spread(samples: Sequence[float]) -> Spread:
    """Raises StatisticsError without samples."""
    return Spread(statistics.median(samples), min(samples), max(samples))


def geometric_mean(ratios: Sequence[float]) -> float:
    """Raises ZeroDivisionError without ratios, ValueError unless all are positive."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def rounds(names: Sequence[str], n_rounds: int) -> Iterator[str]:
    """Every name once a round; each round starts at the name after the one that started the last."""
    for n in range(n_rounds):
        first = n % len(names)
        yield from (*names[first:], *names[:first])


def interleaved(calls: Mapping[str, Timed], n_rounds: int, sample: Callable[[Timed], float]) -> dict[str, list[float]]:
    """A sample of every call in each of ``n_rounds`` :func:`rounds`, by name."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for name in rounds(tuple(calls), n_rounds):
        samples[name].append(sample(calls[name]))
    return samples


def measure_times(calls: Mapping[str, Timed], timer: Timer, settings: Settings) -> dict[str, Times]:
    """The times of each of ``calls``, by name."""
    names = tuple(calls)
    for name in rounds(names, settings.warmups):
        calls[name]()
    call_ms = interleaved(calls, settings.calls, timer.call_ms)
    host_us = interleaved(calls, settings.host_calls, timer.host_us)
    schedule = list(rounds(names, settings.profiled))
    profiles = list(zip(schedule, timer.profile([calls[name] for name in schedule]), strict=True))
    peaks = {name: timer.peak_bytes(calls[name]) for name in names}
    times = {}
    for name in names:
        ran = sorted((kernels for owner, kernels in profiles if owner == name), key=total_us)
        times[name] = Times(
            call_ms=spread(call_ms[name]),
            kernel_ms=spread([total_us(kernels) / 1e3 for kernels in ran]),
            host_us=spread(host_us[name]),
            kernels=tuple(sorted(ran[len(ran) // 2], key=lambda kernel: -kernel.us)),
            kernel_sums=kernel_sums(ran),
            peak_bytes=peaks[name],
        )
    return times


def kernel_sums(calls: Sequence[Sequence[KernelTime]]) -> tuple[KernelSum, ...]:
    """The kernels of the median of ``calls``, which go from the shortest to the longest."""
    median = calls[len(calls) // 2]
    return tuple(
        KernelSum(
            name,
            sum(kernel.name == name for kernel in median),
            statistics.median(total_us([kernel for kernel in call if kernel.name == name]) for call in calls),
        )
        for name in dict.fromkeys(kernel.name for kernel in median)
    )


def total_us(kernels: Sequence[KernelTime]) -> float:
    return sum(kernel.us for kernel in kernels)
