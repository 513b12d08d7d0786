"""The forward on the first GPU, in one go: built, checked by the sanitizer, compared with float64 and with its own
repeats, timed beside peers. Writes DIR/gpu_gate.json and DIR/gpu_gate.png.

    python -m tools.gpu_gate --out DIR --peer fla [--filter TEXT ...] [--minutes M]

Needs torch for CUDA, cuda-bindings, pydantic, nvcc, ninja and compute-sanitizer, and the peers that are named. Exit
codes: 0 all checks hold, 1 not, 2 could not run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from loomgen.bench.evidence import OURS_NAME, Run, command_of, commit_of, compare, document, write_document
from loomgen.bench.gpu import DEVICE
from loomgen.bench.roofline import draw_roofline
from loomgen.bench.sanitizer import Finding, find_sanitizer, sanitize
from loomgen.bench.session import Request, measure, require_all
from loomgen.bench.table import table
from loomgen.bench.timing import Settings
from loomgen.bench.warm import Compilations, jobs
from loomgen.bench.workloads import Suite
from loomgen.errors import LoomgenError
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import CudaDriver
from loomgen.runtime.kernels import DeviceKernels
from tools.gpu_smoke import forward_kernels

ROOT = Path(__file__).resolve().parents[1]

ERROR_BOUNDS = {"o": 4.5e-3, "state": 3.5e-3}
"""Relative L2 errors against float64: independent random keys, normalised."""

WORST_RATIO = 1.0
MEAN_RATIO = 0.75
"""Our GPU kernel time over a peer's: on any row, and in the geometric mean."""

N_REPEATS = 100
DEFAULT_MINUTES = 8.5
_WARM_SHARE = 0.4
"""Of the time there is, what the peers' compilations and the sanitizer may take."""

_OK, _FAILED, _COULD_NOT_RUN = 0, 1, 2


@dataclass(slots=True)
class Stopwatch:
    """Seconds that each part of the gate took."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        begin = time.monotonic()
        print(f"{part} ...", flush=True)
        yield
        self.seconds[part] = round(time.monotonic() - begin, 2)


def build() -> int:
    """Builds every kernel of the forward, all at once, into the cache that later calls read; how many they are."""
    kernels = DeviceKernels(DEVICE.index, CudaDriver(), CubinStore())
    wanted = forward_kernels(kernels)
    kernels.prepare(wanted)
    return len(wanted)


def checks_of(run: Run, findings: Sequence[Finding]) -> dict[str, bool]:
    """Every claim, by name. A row without a result, or that was not measured, holds none."""
    rows = run.rows
    checks = {
        "complete": bool(rows) and not run.not_measured and not any(row.failures for row in rows),
        "accurate": all(_accurate(row.rel_l2.get(OURS_NAME, {})) for row in rows),
        "repeats_equal": all(row.repeats_equal.get(OURS_NAME, False) for row in rows),
        "sanitizer_clean": bool(findings) and all(finding.ok for finding in findings),
    }
    for peer, found in compare(rows).items():
        checks[f"no_row_slower_than_{peer}"] = found.worst <= WORST_RATIO
        checks[f"mean_against_{peer}"] = found.geometric_mean <= MEAN_RATIO
    return checks


def _accurate(errors: Mapping[str, float]) -> bool:
    return bool(errors) and all(error <= ERROR_BOUNDS[part] for part, error in errors.items())


def request_of(options: argparse.Namespace, deadline: float) -> Request:
    return Request(
        peers=tuple(options.peer),
        suites=tuple(map(Suite, options.suite or [suite.value for suite in Suite])),
        filters=tuple(options.filter),
        commit=commit_of(ROOT) if options.commit is None else options.commit,
        command=command_of(["python", "-m", "tools.gpu_gate"], sys.argv[1:]),
        settings=Settings(repeats=N_REPEATS),
        deadline=deadline,
    )


def gate(options: argparse.Namespace) -> dict[str, Any]:
    """The document of the whole run, also written; raises what :func:`measure` raises, MissingTool, BuildFailed."""
    begin = time.monotonic()
    request = request_of(options, begin + 60 * options.minutes)
    require_all(request)
    sanitizer = find_sanitizer()
    watch = Stopwatch()
    warm_deadline = begin + _WARM_SHARE * 60 * options.minutes
    with Compilations(jobs(request.peers, request.cases())) as compilations:
        with watch.timing("build"):
            n_kernels = build()
        with watch.timing("sanitize"):
            findings = sanitize(sanitizer, warm_deadline)
        with watch.timing("wait for the peers' compilations"):
            unfinished = compilations.unfinished(warm_deadline)

    def found(run: Run) -> dict[str, Any]:
        return {
            **document(run),
            "kernels_built": n_kernels,
            "seconds": watch.seconds,
            "unfinished_peer_compilations": unfinished,
            "sanitizer": [asdict(finding) for finding in findings],
            "checks": checks_of(run, findings),
        }

    path = options.out / "gpu_gate.json"
    with watch.timing("measure"):
        run = measure(request, lambda run: write_document(path, found(run)))
    content = found(run)
    write_document(path, content)
    print(table(run))
    _draw(run, path.with_suffix(".png"))
    return content


def _draw(run: Run, path: Path) -> None:
    try:
        draw_roofline(run, path)
    except LoomgenError as error:
        print(error, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu_gate", description="The forward on the first GPU, in one go.")
    parser.add_argument("--out", type=Path, required=True, help="folder for gpu_gate.json and gpu_gate.png")
    parser.add_argument("--peer", action="append", default=[], help="measured beside loomgen; repeatable")
    parser.add_argument("--suite", action="append", choices=[suite.value for suite in Suite], help="default: all")
    parser.add_argument("--filter", action="append", default=[], help="only rows whose key contains this; repeatable")
    parser.add_argument("--minutes", type=float, default=DEFAULT_MINUTES, help="time for all of it")
    parser.add_argument("--commit", help="the commit, for the document (default: ask git)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        content = gate(options)
    except LoomgenError as error:
        print(error, file=sys.stderr)
        return _COULD_NOT_RUN
    for name, holds in content["checks"].items():
        print(f"{'ok    ' if holds else 'FAILED'} {name}")
    return _OK if all(content["checks"].values()) else _FAILED


if __name__ == "__main__":
    sys.exit(main())
