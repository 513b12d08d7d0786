"""The operator on the first GPU, in one go: built, checked by the sanitizer, compared with float64 and with its own
repeats, timed beside peers. Writes DIR/gpu_gate.json of the forward, DIR/training.<card>.json of a training call, and
pictures beside them.

    python -m tools.gpu_gate --out DIR --peer fla [--pass fwdbwd] [--filter TEXT ...] [--minutes M]

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

from loomgen.bench.evidence import Run, document
from loomgen.bench.gpu import DEVICE
from loomgen.bench.roofline import draw_roofline
from loomgen.bench.sanitizer import Finding, find_sanitizer, sanitize
from loomgen.bench.session import Request, measure, require_all
from loomgen.bench.table import table
from loomgen.bench.timing import Settings
from loomgen.bench.warm import Compilations, jobs
from loomgen.bench.workloads import Pass, Suite
from loomgen.documents import write_document
from loomgen.errors import LoomgenError
from loomgen.evidence import command_of, commit_of, evidence_path
from loomgen.ops import dispatch, dispatch_backward
from loomgen.registry import KernelEntry, Registry
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import CudaDriver
from loomgen.runtime.kernels import DeviceKernels
from tools.arguments import out_folder
from tools.gate_checks import checks_of
from tools.gpu_evidence import Row as HostRow
from tools.host_time import training_host_times
from tools.running import exit_code

ROOT = Path(__file__).resolve().parents[1]

PASSES = {"fwd": (Pass.FWD,), "fwdbwd": (Pass.FWDBWD,), "both": (Pass.FWD, Pass.FWDBWD)}

N_REPEATS = 100
_N_HOST_CALLS_OF_TRAINING = 40
"""Beside peers, which take milliseconds; what the host is held to is measured alone."""

_N_HOST_ROUNDS = 5
DEFAULT_MINUTES = 8.5
_WARM_SHARE = 0.5
"""Of the time there is, what the peers' compilations and the sanitizer may take. What many processes
have not compiled by then is compiled at each row's first call."""

_FORWARD_SHARE = 0.4
"""Of the time that is left, what the forward's rows may take where training calls are to follow."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What was done before anything was measured. ``findings`` are None where the sanitizer was not wanted."""

    n_kernels: int
    findings: list[Finding] | None
    unfinished: int
    host: list[HostRow]


def kernels_of(registry: Registry, passes: Sequence[Pass]) -> list[KernelEntry]:
    """Every kernel that calls of ``passes`` may launch whose gates and steps do not come in raw and whose lengths the
    host knows: all rows and the sanitizer's calls are such."""
    stages = (*dispatch.STAGES, *(dispatch_backward.STAGES if Pass.FWDBWD in passes else ()))
    return [entry for entry in registry.kernels if entry.family == dispatch.FAMILY and entry.stage in stages]


def build(passes: Sequence[Pass]) -> int:
    """Builds :func:`kernels_of` ``passes``, all at once, into the cache that later calls read; how many they are."""
    kernels = DeviceKernels(DEVICE.index, CudaDriver(), CubinStore())
    wanted = kernels_of(kernels.registry, passes)
    kernels.prepare(wanted)
    return len(wanted)


def request_of(options: argparse.Namespace, what: Pass, deadline: float) -> Request:
    trains = what is Pass.FWDBWD
    host_calls = _N_HOST_CALLS_OF_TRAINING if trains else Settings().host_calls
    return Request(
        peers=tuple(options.peer),
        suites=tuple(map(Suite, options.suite or [suite.value for suite in Suite])),
        filters=tuple(options.filter),
        what=what,
        commit=commit_of(ROOT) if options.commit is None else options.commit,
        command=command_of(["python", "-m", "tools.gpu_gate"], sys.argv[1:]),
        settings=Settings(repeats=options.repeats, host_calls=host_calls),
        deadline=deadline,
    )


def prepare(options: argparse.Namespace, requests: Sequence[Request], watch: Stopwatch, deadline: float) -> Prepared:
    """Builds, sanitizes and lets the peers compile, side by side, until ``deadline``; then times the host, alone."""
    passes = [request.what for request in requests]
    sanitizer = find_sanitizer() if options.sanitizer else None
    findings = None
    wanted = [job for request in requests for job in jobs(request.peers, request.cases(), request.what)]
    with Compilations(wanted) as compilations:
        with watch.timing("build"):
            n_kernels = build(passes)
        if sanitizer is not None:
            with watch.timing("sanitize"):
                findings = sanitize(sanitizer, deadline, passes)
        with watch.timing("wait for the peers' compilations"):
            unfinished = compilations.unfinished(deadline)
            print("".join(f"UNFINISHED {job}\n" for job in unfinished), end="", flush=True)
    host: list[HostRow] = []
    if Pass.FWDBWD in passes:
        with watch.timing("host times"):
            host = list(training_host_times(n_rounds=_N_HOST_ROUNDS))
    return Prepared(n_kernels=n_kernels, findings=findings, unfinished=len(unfinished), host=host)


def run_pass(request: Request, out: Path, prepared: Prepared, watch: Stopwatch) -> dict[str, Any]:
    """The document of one pass, also written after each row."""
    host = prepared.host if request.what is Pass.FWDBWD else []

    def found(run: Run) -> dict[str, Any]:
        return {
            **document(run),
            "kernels_built": prepared.n_kernels,
            "seconds": watch.seconds,
            "unfinished_peer_compilations": prepared.unfinished,
            "sanitizer": [asdict(finding) for finding in prepared.findings or ()],
            "host": [asdict(row) for row in host],
            "checks": checks_of(run, prepared.findings, host),
        }

    def write(run: Run) -> None:
        write_document(path_of(out, run), found(run))
        print(_last(run), flush=True)

    with watch.timing(f"measure {request.what.value}"):
        run = measure(request, write)
    content = found(run)
    path = path_of(out, run)
    write_document(path, content)
    print(table(run))
    _draw(run, path.with_suffix(".png"))
    return content


def path_of(out: Path, run: Run) -> Path:
    return out / "gpu_gate.json" if run.what is Pass.FWD else evidence_path(out, "training", run.card)


def _last(run: Run) -> str:
    """The row that was just measured, for who watches."""
    row = run.rows[-1]
    times = ", ".join(f"{name} {times.kernel_ms.median:.3f} ms" for name, times in row.times.items())
    return f"{run.what.value} {row.case.key}: {times}{' FAILED ' if row.failures else ''}{', '.join(row.failures)}"


def gate(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The documents of all passes, also written; raises what :func:`measure` raises, MissingTool, BuildFailed."""
    begin = time.monotonic()
    end = begin + 60 * options.minutes
    requests = [request_of(options, what, end) for what in PASSES[options.what]]
    for request in requests:
        require_all(request)
    watch = Stopwatch()
    prepared = prepare(options, requests, watch, begin + _WARM_SHARE * 60 * options.minutes)
    if len(requests) > 1:
        now = time.monotonic()
        requests[0] = request_of(options, requests[0].what, now + _FORWARD_SHARE * (end - now))
    return [run_pass(request, options.out, prepared, watch) for request in requests]


def _draw(run: Run, path: Path) -> None:
    try:
        draw_roofline(run, path)
    except LoomgenError as error:
        print(error, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu_gate", description="The operator on the first GPU, in one go.")
    parser.add_argument("--out", type=out_folder, required=True, help="folder for the documents and pictures")
    parser.add_argument("--pass", dest="what", choices=list(PASSES), default="fwd", help="what is run")
    parser.add_argument("--peer", action="append", default=[], help="measured beside loomgen; repeatable")
    parser.add_argument("--suite", action="append", choices=[suite.value for suite in Suite], help="default: all")
    parser.add_argument("--filter", action="append", default=[],
                        help="only rows whose key contains this, those of the first first; repeatable")  # fmt: skip
    parser.add_argument("--repeats", type=int, default=N_REPEATS, help="calls whose bits are compared, a row")
    parser.add_argument("--minutes", type=float, default=DEFAULT_MINUTES, help="time for all of it")
    parser.add_argument("--no-sanitizer", dest="sanitizer", action="store_false", help="without compute-sanitizer")
    parser.add_argument("--commit", help="the commit, for the document (default: ask git)")
    return parser


def _holds(documents: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all checks do; they are printed."""
    checks = [check for content in documents for check in content["checks"].items()]
    for name, holds in checks:
        print(f"{'ok    ' if holds else 'FAILED'} {name}")
    return all(holds for _, holds in checks)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    return exit_code(lambda: _holds(gate(options)))


if __name__ == "__main__":
    sys.exit(main())
