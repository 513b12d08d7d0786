"""What the gate claims of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite

from loomgen.bench.evidence import OUR_NAMES, OURS_NAME, Row, Run, compare
from loomgen.bench.sanitizer import Finding
from loomgen.bench.workloads import Pass, Suite
from tools.gpu_evidence import Row as HostRow

ERROR_BOUNDS: dict[Pass, dict[str, float]] = {
    Pass.FWD: {"o": 4.5e-3, "state": 3.5e-3},
    Pass.FWDBWD: {
        "o": 5e-3, "state": 4e-3, "dq": 5e-3, "dk": 5.5e-3, "dv": 5e-3, "dg": 1e-2, "dbeta": 1e-2, "dh0": 5e-3,
    },
}  # fmt: skip
"""Relative L2 errors against float64: independent random keys, normalised, with decay."""

HARD_RATIO = 1.2
"""Our error over a peer's on the same inputs, where nothing bounds the error itself."""

WORST_RATIO = 1.0
MEAN_RATIO = 0.75
"""Our GPU kernel time over a peer's: on any row, and in the geometric mean."""

PEER_OF_TRAINING = "fla"
"""The peer that a training call is held against; those of others are shown beside it."""


def checks_of(run: Run, findings: Sequence[Finding] | None, host: Sequence[HostRow] = ()) -> dict[str, bool]:
    """Every claim, by name. A row without a result, or that was not measured, holds none; ``findings`` are None where
    the sanitizer was not wanted."""
    rows = run.rows
    usual = [row for row in rows if row.case.suite is not Suite.HARD]
    checks = {
        "complete": bool(rows) and not run.not_measured and not any(row.failures for row in rows),
        "accurate": all(_accurate(row.rel_l2.get(OURS_NAME, {}), ERROR_BOUNDS[run.what]) for row in usual),
        "repeats_equal": all(row.repeats_equal.get(OURS_NAME, False) for row in rows),
    }
    if findings is not None:
        checks["sanitizer_clean"] = bool(findings) and all(finding.ok for finding in findings)
    if host:
        checks["host_time"] = all(row.ok for row in host)
    checks.update(_hard_checks([row for row in rows if row.case.suite is Suite.HARD]))
    return {**checks, **dict(_peer_checks(run))}


def _accurate(errors: Mapping[str, float], bounds: Mapping[str, float]) -> bool:
    return bool(errors) and all(error <= bounds[part] for part, error in errors.items())


def _hard_checks(rows: Sequence[Row]) -> Iterator[tuple[str, bool]]:
    """For each peer that was measured there, whether no error of ours is much larger."""
    for peer in dict.fromkeys(name for row in rows for name in row.rel_l2 if name not in OUR_NAMES):
        compared = [(row.rel_l2.get(OURS_NAME, {}), row.rel_l2[peer]) for row in rows if peer in row.rel_l2]
        yield f"accurate_as_{peer}", all(_no_worse(ours, theirs) for ours, theirs in compared)


def _no_worse(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    """Never where ours is not finite, even if theirs is as bad."""
    compared = {part: (ours[part], error) for part, error in theirs.items() if part in ours}
    return bool(ours) and all(isfinite(our) and our <= HARD_RATIO * their for our, their in compared.values())


def _peer_checks(run: Run) -> Iterator[tuple[str, bool]]:
    for peer, found in compare(run.rows).items():
        if run.what is Pass.FWD:
            yield f"no_row_slower_than_{peer}", found.worst <= WORST_RATIO
            yield f"mean_against_{peer}", found.geometric_mean <= MEAN_RATIO
        elif peer == PEER_OF_TRAINING:
            yield f"no_row_slower_than_{peer}", found.worst < WORST_RATIO
            yield f"memory_at_most_{peer}", all(_memory_at_most(row, peer) for row in run.rows)


def _memory_at_most(row: Row, peer: str) -> bool:
    """True of rows that were not timed: memory is measured where time is."""
    ours, theirs = row.times.get(OURS_NAME), row.times.get(peer)
    return ours is None or theirs is None or ours.peak_bytes <= theirs.peak_bytes
