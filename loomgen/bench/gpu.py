"""Timing on the first GPU: events for calls, the profiler for kernels, and what the card can do at most."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from loomgen.bench.timing import KernelTime, Timed, spread
from loomgen.errors import LoomgenError, NoGpu

DEVICE = torch.device("cuda", 0)

FLUSHED_BYTES = 512 * 2**20
_FLUSH_KERNEL = "FillFunctor<signed char>"
"""The fill of :class:`GpuTimer`: the only one of i8 in a profile."""

_PROFILE_ATTEMPTS = 3
_COPIED_BYTES = 2**32
_PRODUCT_SIZE = 8192
_CEILING_CALLS = 10


class ProfileMismatch(LoomgenError):
    """A profile in which calls cannot be told apart."""


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """What a profile says of one thing that the GPU ran; microseconds."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What this card reached in this run: a copy (bytes read plus written), and a bf16 product of size 8192."""

    copy_tb_per_s: float
    matmul_tflops: float

    def floor_ms(self, io_bytes: int, flops: int) -> float:
        """The time in which neither limit lets a pass be done faster."""
        return max(io_bytes / self.copy_tb_per_s, flops / self.matmul_tflops) / 1e9


def require_gpu() -> None:
    """Raises NoGpu."""
    if not torch.cuda.is_available():
        raise NoGpu("no NVIDIA GPU that torch can use: times are measured on one")


class GpuTimer:
    """A :class:`~loomgen.bench.timing.Timer`. Before each timed call 512 MiB are written, which evicts the L2 cache;
    each ends with a synchronisation. While the GPU writes, the host prepares the call: as much host time is hidden."""

    def __init__(self) -> None:
        """Raises NoGpu."""
        require_gpu()
        self._flushed = torch.empty(FLUSHED_BYTES, dtype=torch.int8, device=DEVICE)
        self.profile([lambda: None])  # the first profile of a process also starts the tracer

    def call_ms(self, call: Timed) -> float:
        self._flush()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    def host_us(self, call: Timed) -> float:
        microseconds = host_microseconds(call)
        torch.cuda.synchronize()
        return microseconds

    def profile(self, calls: Sequence[Timed]) -> list[tuple[KernelTime, ...]]:
        """Raises :class:`ProfileMismatch` where the tracer loses records several times in a row."""
        for _ in range(_PROFILE_ATTEMPTS - 1):
            with suppress(ProfileMismatch):
                return self._profile_once(calls)
        return self._profile_once(calls)

    def peak_bytes(self, call: Timed) -> int:
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(DEVICE)
        torch.cuda.reset_peak_memory_stats(DEVICE)
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated(DEVICE) - before

    def _profile_once(self, calls: Sequence[Timed]) -> list[tuple[KernelTime, ...]]:
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as recorded:
            for call in calls:
                self._flush()
                call()
                torch.cuda.synchronize()
        return split_calls(_device_events(recorded), len(calls))

    def _flush(self) -> None:
        self._flushed.fill_(1)


def host_microseconds(call: Timed, n_calls: int = 1, after: Timed | None = None) -> float:
    """Of each of ``n_calls`` that follow one another, until the last returns, with nothing queued before them: all that
    ``after`` has queued is done."""
    if after is not None:
        after()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(n_calls):
        call()
    return 1e6 * (time.perf_counter() - start) / n_calls


def split_calls(events: Sequence[DeviceEvent], n_calls: int) -> list[tuple[KernelTime, ...]]:
    """The kernels of each call: those between the flush before it and the next one.

    Raises :class:`ProfileMismatch` where there are not as many flushes as calls.
    """
    calls: list[list[KernelTime]] = []
    for event in sorted(events, key=lambda event: event.start):
        if _FLUSH_KERNEL in event.name:
            calls.append([])
        elif calls:
            calls[-1].append(KernelTime(event.name, event.end - event.start))
    if len(calls) != n_calls:
        raise ProfileMismatch(f"the profile of {n_calls} calls shows {len(calls)} L2 flushes")
    return [tuple(kernels) for kernels in calls]


def _device_events(recorded: profile) -> list[DeviceEvent]:
    return [
        DeviceEvent(event.name, event.time_range.start, event.time_range.end)
        for event in recorded.events() or ()  # type: ignore[no-untyped-call]
        if event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
    ]


def measure_ceilings(timer: GpuTimer) -> Ceilings:
    source = torch.randint(0, 255, (_COPIED_BYTES,), dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    copy_ms = _median_ms(timer, lambda: target.copy_(source))
    size = (_PRODUCT_SIZE, _PRODUCT_SIZE)
    a, b, c = (torch.randn(size, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
    product_ms = _median_ms(timer, lambda: torch.mm(a, b, out=c))
    return Ceilings(
        copy_tb_per_s=2 * _COPIED_BYTES / copy_ms / 1e9,
        matmul_tflops=2 * _PRODUCT_SIZE**3 / product_ms / 1e9,
    )


def _median_ms(timer: GpuTimer, call: Timed) -> float:
    for _ in range(2):
        call()
    return spread([timer.call_ms(call) for _ in range(_CEILING_CALLS)]).median
