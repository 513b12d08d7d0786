"""Implementations and a timer that need no GPU, and rows made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from loomgen.bench.evidence import Row, Run
from loomgen.bench.gpu import Ceilings
from loomgen.bench.implementations import Call, Implementation, Result
from loomgen.bench.inputs import Inputs
from loomgen.bench.reference import recurrent_reference
from loomgen.bench.timing import KernelSum, KernelTime, Settings, Spread, Timed, Times
from loomgen.bench.workloads import Case, Pass, Suite, Workload
from loomgen.evidence import Card
from loomgen.golden import chunk_gated_delta_rule

FEW = Settings(warmups=1, calls=3, profiled=3, host_calls=2, repeats=2, peer_repeats=2)


def case(*lengths: int, key_heads: int = 1, value_heads: int = 2, with_state: bool = False, timed: bool = True) -> Case:
    work = Workload(
        label="x".join(map(str, lengths)),
        lengths=lengths,
        key_heads=key_heads,
        value_heads=value_heads,
        layout="packed",
    )
    return Case(suite=Suite.PERF, workload=work, with_state=with_state, timed=timed)


@dataclass
class FakeTimer:
    """A clock on which each call takes as long as ``us`` says of its owner; remembers who was called for what."""

    us: Mapping[str, Sequence[float]]
    owners: dict[int, str] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)

    def call_ms(self, call: Timed) -> float:
        return self._next("call", call) / 1e3

    def host_us(self, call: Timed) -> float:
        return self._next("host", call)

    def profile(self, calls: Sequence[Timed]) -> list[tuple[KernelTime, ...]]:
        return [(KernelTime("k", self._next("profile", call)), KernelTime("long", 100.0)) for call in calls]

    def peak_bytes(self, call: Timed) -> int:
        return 7

    def _next(self, what: str, call: Timed) -> float:
        owner = str(call())
        seen = sum(1 for entry in self.log if entry == (what, owner))
        self.log.append((what, owner))
        samples = self.us[owner]
        return samples[seen % len(samples)]


class SteadyTimer:
    """Every call takes as long as the next one."""

    def call_ms(self, call: Timed) -> float:
        call()
        return 2.0

    def host_us(self, call: Timed) -> float:
        call()
        return 30.0

    def profile(self, calls: Sequence[Timed]) -> list[tuple[KernelTime, ...]]:
        return [(KernelTime("kernel", 500.0),) for _ in calls]

    def peak_bytes(self, call: Timed) -> int:
        call()
        return 2**20


def right(name: str) -> Implementation:
    """Computes the reference."""

    def bind(x: Inputs, final: bool) -> Call:
        def call() -> Result:
            o, state = recurrent_reference(x)
            return o.view(x.v.shape).float(), state.float() if final else None

        return call

    return Implementation(name=name, module="math", packages=(), bind=bind, ours=name == "loomgen")


def differentiable(name: str, wrong: float = 1.0) -> Implementation:
    """Computes the function in float64, for autograd to differentiate; what comes by ``o`` is ``wrong`` times as large
    as it should be."""

    def bind(x: Inputs, final: bool) -> Call:
        def call() -> Result:
            o, state = chunk_gated_delta_rule(
                x.q, x.k, x.v, x.g, x.beta, initial_state=x.initial_state, cu_seqlens=x.cu_seqlens, use_qk_l2norm=True
            )
            o = wrong * o + (1 - wrong) * o.detach()
            return o, state if final else None

        return call

    return Implementation(name=name, module="math", packages=(), bind=bind, ours=name == "loomgen")


def raising(name: str, error: Exception) -> Implementation:
    def bind(x: Inputs, final: bool) -> Call:
        raise error

    return Implementation(name=name, module="math", packages=(), bind=bind)


def drifting(name: str) -> Implementation:
    """Gives other bits at each call, by less than any bound on errors."""

    def bind(x: Inputs, final: bool) -> Call:
        n_calls = 0

        def call() -> Result:
            nonlocal n_calls
            n_calls += 1
            o, state = recurrent_reference(x)
            return (o * (1 + n_calls * 1e-6)).view(x.v.shape).float(), state.float() if final else None

        return call

    return Implementation(name=name, module="math", packages=(), bind=bind)


def times(kernel_ms: float, call_ms: float = 1.0, peak_bytes: int = 1000) -> Times:
    return Times(
        call_ms=Spread(call_ms, call_ms / 2, call_ms * 2),
        kernel_ms=Spread(kernel_ms, kernel_ms, kernel_ms),
        host_us=Spread(40.0, 30.0, 60.0),
        kernels=(KernelTime("scan", kernel_ms * 600), KernelTime("output", kernel_ms * 400)),
        kernel_sums=(KernelSum("output", 1, kernel_ms * 400), KernelSum("scan", 1, kernel_ms * 600)),
        peak_bytes=peak_bytes,
    )


def row(length: int, **kernel_ms: float) -> Row:
    names = tuple(kernel_ms)
    return Row(
        case=case(length),
        times={name: times(ms) for name, ms in kernel_ms.items()},
        rel_l2={name: {"o": 1e-3, "state": 2e-3} for name in names},
        repeats_equal=dict.fromkeys(names, True),
        failures={},
        digests={name: {"o": "0123456789abcdef"} for name in names},
    )


def run_of(*rows: Row, what: Pass = Pass.FWD, not_measured: tuple[str, ...] = ()) -> Run:
    return Run(
        card=Card(name="NVIDIA Test", driver="1", clocks={"sm_mhz": 1000, "memory_mhz": None}),
        versions={"torch": torch.__version__},
        commit="abc",
        command="loomgen bench",
        what=what,
        settings=FEW,
        ceilings=Ceilings(copy_tb_per_s=4.0, matmul_tflops=800.0),
        rows=rows,
        not_measured=not_measured,
    )
