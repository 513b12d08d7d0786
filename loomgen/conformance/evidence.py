"""The document that a comparison on a card leaves behind."""

from __future__ import annotations

import math
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from loomgen.conformance.case import Case
from loomgen.conformance.compare import Outcome


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A GPU as nvidia-smi describes it; clocks in MHz, None where it does not know them."""

    name: str
    driver: str
    clocks: Mapping[str, int | None]

    @property
    def slug(self) -> str:
        """``NVIDIA H200`` as ``h200``."""
        words = [word for word in self.name.lower().split() if word != "nvidia"]
        return "-".join(words)

    def described(self) -> dict[str, Any]:
        """What a document says of it."""
        return {"card": self.name, "driver": self.driver, "clocks": dict(self.clocks)}


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


def parse_card(text: str) -> Card:
    """The card in a line of nvidia-smi's CSV: name, driver version, SM clock, memory clock, highest SM clock."""
    name, driver, *clocks = (part.strip() for part in text.splitlines()[0].split(","))
    names = ("sm_mhz", "memory_mhz", "max_sm_mhz")
    return Card(name=name, driver=driver, clocks=dict(zip(names, map(_clock, clocks), strict=True)))


def _clock(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def first_card() -> Card:
    """The first GPU; OSError or CalledProcessError without nvidia-smi."""
    query = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,clocks.max.sm"
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits", "--id=0"]
    return parse_card(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def versions(nvcc: str, host_compiler: str) -> dict[str, str]:
    """What took part, by name."""
    return {
        "cuda-bindings": _package_version("cuda-bindings"),
        "host g++": host_compiler,
        "numpy": np.__version__,
        "nvcc": nvcc,
        "python": platform.python_version(),
    }


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def document(card: Card, used: Mapping[str, str], commit: str, command: str, rows: Sequence[Row]) -> dict[str, Any]:
    """What is written down; rows keep their order."""
    return {
        **card.described(),
        "versions": dict(used),
        "commit": commit,
        "command": command,
        "rows": [asdict(row) for row in rows],
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
