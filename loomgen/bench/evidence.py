"""The document that a run leaves behind; ``docs/evidence/bench.schema.json`` describes it."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from loomgen.bench.gpu import Ceilings
from loomgen.bench.implementations import OURS, PEERS, Implementation
from loomgen.bench.timing import Settings, Spread, Times, geometric_mean
from loomgen.bench.workloads import Case, Pass
from loomgen.evidence import Card, head, package_version

OURS_NAME = OURS.name
OUR_NAMES = frozenset((OURS_NAME, *(name for name, peer in PEERS.items() if peer.ours)))
_KERNELS_KEPT = 8
_SUMS_KEPT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was found of every implementation on one case, by their names. Who failed is in ``failures`` alone."""

    case: Case
    times: Mapping[str, Times]
    rel_l2: Mapping[str, Mapping[str, float]]
    repeats_equal: Mapping[str, bool]
    failures: Mapping[str, str]
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def ratios(self) -> dict[str, float]:
        """Our GPU kernel time over each peer's."""
        ours = self.times.get(OURS_NAME)
        if ours is None:
            return {}
        return {
            name: ours.kernel_ms.median / times.kernel_ms.median
            for name, times in self.times.items()
            if name not in OUR_NAMES
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Our GPU kernel time over a peer's, over the rows where both were timed; below 1 we are faster."""

    rows: int
    geometric_mean: float
    worst: float
    worst_row: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything that a run found. ``not_measured`` are the rows for which no time was left."""

    card: Card
    versions: Mapping[str, str]
    commit: str
    command: str
    what: Pass
    settings: Settings
    ceilings: Ceilings | None
    rows: tuple[Row, ...]
    not_measured: tuple[str, ...] = ()


def compare(rows: Sequence[Row]) -> dict[str, Comparison]:
    """By peer; only peers that were timed beside us."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        for name, ratio in row.ratios().items():
            found.setdefault(name, {})[row.case.key] = ratio
    return {name: _comparison(ratios) for name, ratios in found.items()}


def _comparison(ratios: Mapping[str, float]) -> Comparison:
    worst = max(ratios, key=lambda row: ratios[row])
    mean = geometric_mean(list(ratios.values()))
    return Comparison(rows=len(ratios), geometric_mean=mean, worst=ratios[worst], worst_row=worst)


def document(run: Run) -> dict[str, Any]:
    """The run as JSON can hold it."""
    return {
        **head(run.card, versions=run.versions, commit=run.commit, command=run.command),
        "settings": asdict(run.settings),
        "ceilings": None if run.ceilings is None else asdict(run.ceilings),
        "rows": [_row(row, run) for row in run.rows],
        "not_measured": list(run.not_measured),
        "summary": {name: asdict(comparison) for name, comparison in compare(run.rows).items()},
    }


def _row(row: Row, run: Run) -> dict[str, Any]:
    case, work, times = row.case, row.case.workload, row.times
    io_bytes, flops = work.io_bytes(run.what), work.flops(run.what)
    return {
        "row": case.key,
        "suite": case.suite.value,
        "pass": run.what.value,
        "gate": case.gate,
        "tokens": work.n_tokens,
        "io_bytes": io_bytes,
        "flops": flops,
        "floor_ms": None if run.ceilings is None else run.ceilings.floor_ms(io_bytes, flops),
        "kernel_ms": {name: t.kernel_ms.median for name, t in times.items()},
        "kernel_range_ms": {name: _range(t.kernel_ms) for name, t in times.items()},
        "call_ms": {name: t.call_ms.median for name, t in times.items()},
        "call_range_ms": {name: _range(t.call_ms) for name, t in times.items()},
        "host_us": {name: t.host_us.median for name, t in times.items()},
        "launches": {name: len(t.kernels) for name, t in times.items()},
        "kernels": {name: _longest(t) for name, t in times.items()},
        "kernel_sums": {name: [asdict(kernel) for kernel in t.kernel_sums[:_SUMS_KEPT]] for name, t in times.items()},
        "peak_bytes": {name: t.peak_bytes for name, t in times.items()},
        "ratios": row.ratios(),
        "rel_l2": {name: {part: _finite(e) for part, e in parts.items()} for name, parts in row.rel_l2.items()},
        "repeats_equal": dict(row.repeats_equal),
        "digests": {name: dict(parts) for name, parts in row.digests.items()},
        "failures": dict(row.failures),
    }


def _range(samples: Spread) -> list[float]:
    return [samples.low, samples.high]


def _longest(times: Times) -> list[dict[str, Any]]:
    return [asdict(kernel) for kernel in times.kernels[:_KERNELS_KEPT]]


def _finite(error: float) -> float | None:
    """JSON has no NaN: the error of a result that is not finite is null."""
    return error if math.isfinite(error) else None


def versions_of(implementations: Sequence[Implementation]) -> dict[str, str]:
    """What took part, by name."""
    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        OURS_NAME: package_version(OURS_NAME),
    }
    for implementation in implementations:
        found |= implementation.versions()
    return found
