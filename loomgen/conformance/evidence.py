"""The rows of a comparison on a card, and what took part in it."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loomgen.conformance.case import Case
from loomgen.conformance.compare import Outcome
from loomgen.evidence import package_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case on one card. ``first_failure`` is null, or tells the first element out of bounds or the error."""

    primitive: str
    kernel: str
    case: str
    elements: int
    differing: int
    max_ulp: int | None
    bound: str
    share_of_bound: float | None
    ok: bool
    first_failure: str | None


def compared(case: Case, outcome: Outcome) -> Row:
    """The row of a case that ran."""
    share = outcome.share_of_bound
    return Row(
        primitive=", ".join(case.primitives),
        kernel=case.kernel,
        case=case.name,
        elements=outcome.elements,
        differing=outcome.differing,
        max_ulp=outcome.max_ulp,
        bound=case.comparison.bound,
        share_of_bound=None if share is None or not math.isfinite(share) else round(share, 4),
        ok=outcome.outside == 0,
        first_failure=outcome.first_outside,
    )


def failed(case: Case, error: Exception) -> Row:
    """The row of a case that did not run."""
    n_elements = math.prod(case.output_shape)
    return Row(
        primitive=", ".join(case.primitives),
        kernel=case.kernel,
        case=case.name,
        elements=n_elements,
        differing=n_elements,
        max_ulp=None,
        bound=case.comparison.bound,
        share_of_bound=None,
        ok=False,
        first_failure=str(error),
    )


def versions(nvcc: str, host_compiler: str) -> dict[str, str]:
    """What took part, by name."""
    return {
        "cuda-bindings": package_version("cuda-bindings"),
        "host g++": host_compiler,
        "numpy": np.__version__,
        "nvcc": nvcc,
        "python": platform.python_version(),
    }


def table(rows: Sequence[Row]) -> str:
    """The rows as text: a line a case, then what failed in full."""
    lines = [f"{'case':<44} {'elements':>9} {'differing':>9} {'max ulp':>8} {'share':>7}  ok"]
    lines += [_line(row) for row in rows]
    bad = [row for row in rows if not row.ok]
    lines += [f"FAILED {row.case}: {row.first_failure} (bound: {row.bound})" for row in bad]
    lines.append(f"{len(rows)} cases, {len(bad)} failed")
    return "\n".join(lines)


def _line(row: Row) -> str:
    ulp = "-" if row.max_ulp is None else str(row.max_ulp)
    share = "-" if row.share_of_bound is None else f"{row.share_of_bound:.3f}"
    ok = "yes" if row.ok else "NO"
    return f"{row.case:<44} {row.elements:>9} {row.differing:>9} {ulp:>8} {share:>7}  {ok}"
