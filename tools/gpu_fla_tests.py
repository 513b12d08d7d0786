"""Run FLA's own tests of Gated DeltaNet on the first GPU with loomgen as a backend, and count what loomgen ran.

    python -m tools.gpu_fla_tests --fla CHECKOUT --out DIR --commit COMMIT [-k EXPRESSION] [-n WORKERS]
                                  [--minutes M]

CHECKOUT is one of flash-linear-attention: its tests are run, against the `fla` in it, else against the installed one.
Needs what `loomgen[fla]` brings, torch for CUDA, pytest, for workers pytest-xdist, and what compiles kernels. Writes
DIR/fla_tests.<card>.json, again after each test, and prints a table. Exit codes: 0 every test ran, none failed and
loomgen was called, 1 not, 2 could not run.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from loomgen.errors import LoomgenError
from loomgen.evidence import Card, first_card, package_versions, write_evidence
from tools.arguments import out_folder
from tools.fla_layer import BATCH, BOUND, HEAD_DIM, HEADS, TOKENS, VALUE_HEADS, compare_layer
from tools.fla_plugin import BEGIN_BEFORE
from tools.fla_rows import FAILED, PASSED, Collector, Found, TestRow, document_row, line, summary
from tools.gpu_evidence import TORCH_VERSIONS
from tools.operator_calls import built_kernels
from tools.running import exit_code

TESTS = "tests/ops/test_gdn.py"
LAYER = f"GatedDeltaNet[{BATCH} x {TOKENS} tokens, {HEADS}/{VALUE_HEADS} heads of {HEAD_DIM}], not a test of FLA"
PACKAGES = ("fla-core", "triton")


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


def run_all(options: argparse.Namespace, deadline: float, on_row: Callable[[Found], None]) -> Found:
    """FLA's layer with loomgen on and off, then the tests; ``on_row`` is shown what was found after each of them.

    Raises LoomgenError.
    """
    checkout = options.fla.resolve()
    with found_first(checkout, Path(__file__).resolve().parents[1]):
        layer = layer_row()
        on_row(Found(rows=(layer,), not_run=(TESTS,)))
        collector = Collector(on_row=lambda found: on_row(found.after(layer)))
        run_tests(checkout, options.k, options.n, collector, deadline)
        return collector.found().after(layer)


def run_tests(checkout: Path, expression: str, workers: int, collector: Collector, deadline: float = math.inf) -> None:
    """Begins no test after ``deadline``, of ``time.time()``; raises LoomgenError where pytest finds none."""
    parallel = ["-n", str(workers)] if workers > 1 else []
    settings = ["-c", os.devnull, "--rootdir", str(checkout)]  # those of a repository around the checkout are not FLA's
    plugin = ["-p", "tools.fla_plugin", BEGIN_BEFORE, str(deadline), "-p", "no:cacheprovider"]
    code = pytest.main(
        [*settings, *plugin, "-q", *parallel, "-k", expression, str(checkout / TESTS)], plugins=[collector]
    )
    if not collector.chosen:
        raise LoomgenError(f"pytest found no test in {checkout / TESTS}: exit code {int(code)}")


def layer_row() -> TestRow:
    """Raises LoomgenError; whatever else FLA raises, its tests are wanted."""
    start = time.perf_counter()
    try:
        found = compare_layer(torch.device("cuda", 0))
    except LoomgenError:
        raise
    except Exception as error:
        seconds = round(time.perf_counter() - start, 3)
        return TestRow(test=LAYER, outcome=FAILED, seconds=seconds, why=f"{type(error).__name__}: {error}")
    return TestRow(
        test=LAYER,
        outcome=PASSED if found.ok else FAILED,
        calls=found.on.calls,
        differentiable=found.on.differentiable,
        left=tuple(found.on.left),
        seconds=round(time.perf_counter() - start, 3),
        why=f"{found.name} differs from FLA's by {found.largest:.2e}, at most {BOUND}; "
        f"{found.off.calls} calls with FLA_LOOMGEN=0",
    )


def write_found(options: argparse.Namespace, card: Card, found: Found) -> None:
    command = f"python -m tools.gpu_fla_tests --fla CHECKOUT --commit {options.commit}"
    command += f" -k {shlex.quote(options.k)}" if options.k else ""
    command += "" if options.n == 1 else f" -n {options.n}"
    command += "" if options.minutes is None else f" --minutes {options.minutes:g}"
    write_evidence(
        options.out, "fla_tests", card, list(map(document_row, found.rows)),
        command=command,
        commit=options.commit,
        versions={**TORCH_VERSIONS, **package_versions(PACKAGES), "tests": options.tests_version},
        more={"not_run": list(found.not_run)},
    )  # fmt: skip


def measure(options: argparse.Namespace) -> bool:
    """Whether every test ran, none failed and loomgen was called."""
    deadline = math.inf if options.minutes is None else time.time() + 60 * options.minutes
    card = first_card()
    built_kernels()  # before workers ask for them one after the other
    found = run_all(options, deadline, lambda found: write_found(options, card, found))
    write_found(options, card, found)
    not_run = [f"NOT RUN {name}" for name in found.not_run]
    print("\n".join([*map(line, found.rows), *not_run, summary(found)]))
    return found.ok


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_fla_tests", description="FLA's tests with loomgen as its backend.")
    parser.add_argument("--fla", type=Path, required=True, help="a checkout of flash-linear-attention")
    parser.add_argument("--out", type=out_folder, default=Path("build"), help="folder for the document")
    parser.add_argument("--commit", required=True, help="the commit that runs, for the document")
    parser.add_argument("--tests-version", default="unknown", help="the checkout's commit, for the document")
    parser.add_argument("-k", default="", help="the tests to run, as pytest takes it")
    parser.add_argument("-n", type=int, default=1, help="processes that run tests")
    parser.add_argument("--minutes", type=float, help="no test is begun after this time (default: all are)")
    options = parser.parse_args(arguments)
    return exit_code(lambda: measure(options))


if __name__ == "__main__":
    sys.exit(main())
