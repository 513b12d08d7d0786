"""Run FLA's own tests of Gated DeltaNet on the first GPU with loomgen as a backend, and count what loomgen ran.

    python -m tools.gpu_fla_tests --fla CHECKOUT --out DIR --commit COMMIT [-k EXPRESSION] [-n WORKERS]

CHECKOUT is one of flash-linear-attention: its tests are run, against the `fla` in it, else against the installed one.
Needs what `loomgen[fla]` brings, torch for CUDA, pytest, for workers pytest-xdist, and what compiles kernels. Writes
DIR/fla_tests.<card>.json and prints a table. Exit codes: 0 every test passed and loomgen was called, 1 not, 2 could not
run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from loomgen.conformance.evidence import Card, first_card
from loomgen.errors import LoomgenError
from loomgen.ops.dispatch import FAMILY
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import CudaDriver
from loomgen.runtime.kernels import DeviceKernels
from tools.fla_layer import BATCH, BOUND, HEAD_DIM, HEADS, TOKENS, VALUE_HEADS, compare_layer
from tools.fla_plugin import PROPERTY
from tools.gpu_evidence import TORCH_VERSIONS, package_versions, write_evidence

TESTS = "tests/ops/test_gdn.py"
LAYER = f"GatedDeltaNet[{BATCH} x {TOKENS} tokens, {HEADS}/{VALUE_HEADS} heads of {HEAD_DIM}], not a test of FLA"
PACKAGES = ("fla-core", "triton")
PASSED, SKIPPED = "passed", "skipped"

_OK, _FAILED, _COULD_NOT_RUN = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRow:
    """One test of FLA: how it ended, the calls that loomgen ran in it, those of them that have a gradient, and why
    others were left to FLA. A test with neither calls other functions of FLA. ``why`` it did not pass.
    """

    __test__ = False

    test: str
    outcome: str
    calls: int = 0
    differentiable: int = 0
    left: tuple[str, ...] = ()
    seconds: float = 0.0
    why: str | None = None

    @property
    def ok(self) -> bool:
        return self.outcome in (PASSED, SKIPPED)


@dataclass(slots=True)
class Collector:
    """A pytest plugin that keeps a row for each test; errors of set-ups and tear-downs count as failures."""

    rows: dict[str, TestRow] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == PASSED:
            return
        seen: Mapping[str, Any] = dict(report.user_properties).get(PROPERTY, {})  # type: ignore[assignment]
        name = report.nodeid.rpartition("::")[2]
        self.rows[name] = TestRow(
            test=name,
            outcome=report.outcome,
            calls=seen.get("calls", 0),
            differentiable=seen.get("differentiable", 0),
            left=tuple(sorted(set(seen.get("left", ())))),
            seconds=round(report.duration, 3),
            why=_why(report),
        )


def _why(report: pytest.TestReport) -> str | None:
    """Of a test that did not pass."""
    if report.outcome == PASSED:
        return None
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    lines = report.longreprtext.strip().splitlines()
    return lines[-1] if lines else "unknown"


@contextmanager
def found_first(*folders: Path) -> Iterator[None]:
    """Modules are looked for in ``folders`` before all others, here and by workers."""
    before, names = os.environ.get("PYTHONPATH"), [str(folder) for folder in folders]
    os.environ["PYTHONPATH"] = os.pathsep.join([*names, *([before] if before else [])])
    sys.path[:0] = names
    try:
        yield
    finally:
        del sys.path[: len(names)]
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def all_rows(options: argparse.Namespace) -> list[TestRow]:
    """The tests, then FLA's layer with loomgen on and off; raises LoomgenError."""
    checkout = options.fla.resolve()
    with found_first(checkout, Path(__file__).resolve().parents[1]):
        return [*run_tests(checkout, options.k, options.n), layer_row()]


def run_tests(checkout: Path, expression: str, workers: int) -> list[TestRow]:
    """Raises LoomgenError where pytest did not get as far as a test."""
    collector = Collector()
    parallel = ["-n", str(workers)] if workers > 1 else []
    settings = ["-c", os.devnull, "--rootdir", str(checkout)]  # those of a repository around the checkout are not FLA's
    arguments = [*settings, "-p", "tools.fla_plugin", "-p", "no:cacheprovider", "-q", *parallel]
    code = pytest.main([*arguments, "-k", expression, str(checkout / TESTS)], plugins=[collector])
    if not collector.rows:
        raise LoomgenError(f"pytest ran no test of {checkout / TESTS}: exit code {int(code)}")
    return sorted(collector.rows.values(), key=lambda row: row.test)


def layer_row() -> TestRow:
    start = time.perf_counter()
    found = compare_layer(torch.device("cuda", 0))
    return TestRow(
        test=LAYER,
        outcome=PASSED if found.ok else "failed",
        calls=found.on.calls,
        differentiable=found.on.differentiable,
        left=tuple(found.on.left),
        seconds=round(time.perf_counter() - start, 3),
        why=f"{found.name} differs from FLA's by {found.largest:.2e}, at most {BOUND}; "
        f"{found.off.calls} calls with FLA_LOOMGEN=0",
    )


def document_row(row: TestRow) -> dict[str, Any]:
    return {**asdict(row), "ok": row.ok}


def line(row: TestRow) -> str:
    calls = f"{row.calls} calls, {row.differentiable} with gradients"
    left = row.why or "; ".join(row.left)
    return f"{row.test:<110} {row.outcome:<8} {calls:<30} {left}"


def summary(rows: Sequence[TestRow]) -> str:
    n_ours = sum(row.calls > 0 for row in rows)
    counts = {name: sum(row.outcome == name for row in rows) for name in (PASSED, "failed", SKIPPED)}
    ended = ", ".join(f"{n} {name}" for name, n in counts.items())
    return f"{len(rows)} tests: {ended}; loomgen ran {sum(row.calls for row in rows)} calls in {n_ours} of them"


def write_rows(options: argparse.Namespace, card: Card, rows: Sequence[TestRow]) -> None:
    command = f"python -m tools.gpu_fla_tests --fla CHECKOUT --commit {options.commit}"
    write_evidence(
        options.out, "fla_tests", card, [document_row(row) for row in rows],
        command=command + (f" -k '{options.k}'" if options.k else ""),
        commit=options.commit,
        versions={**TORCH_VERSIONS, **package_versions(PACKAGES), "tests": options.tests_version},
    )  # fmt: skip


def build_kernels() -> None:
    """All at once, before workers ask for them one after the other."""
    kernels = DeviceKernels(0, CudaDriver(), CubinStore())
    kernels.prepare([kernel for kernel in kernels.registry.kernels if kernel.family == FAMILY])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_fla_tests", description="FLA's tests with loomgen as its backend.")
    parser.add_argument("--fla", type=Path, required=True, help="a checkout of flash-linear-attention")
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder for the document")
    parser.add_argument("--commit", required=True, help="the commit that runs, for the document")
    parser.add_argument("--tests-version", default="unknown", help="the checkout's commit, for the document")
    parser.add_argument("-k", default="", help="the tests to run, as pytest takes it")
    parser.add_argument("-n", type=int, default=1, help="processes that run tests")
    options = parser.parse_args(arguments)
    try:
        card = first_card()
        build_kernels()
        rows = all_rows(options)
        write_rows(options, card, rows)
    except (LoomgenError, OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return _COULD_NOT_RUN
    print("\n".join(map(line, rows)), summary(rows), sep="\n")
    return _OK if all(row.ok for row in rows) and any(row.calls for row in rows) else _FAILED


if __name__ == "__main__":
    sys.exit(main())
