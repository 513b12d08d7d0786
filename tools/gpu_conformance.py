"""Compare every device primitive with its host body on a GPU.

    python -m tools.gpu_conformance prepare                      the host's half, on any machine with g++
    python -m tools.gpu_conformance run --commit COMMIT          the device's half, on a machine with a GPU and nvcc

Needs numpy alone, and cuda-bindings for ``run``. Exit codes: 0 all within bounds, 1 not, 2 could not run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from loomgen.conformance.case import Case
from loomgen.conformance.compare import Array, compare
from loomgen.conformance.device import DeviceError, compile_cubin, open_device
from loomgen.conformance.evidence import Row, compared, failed, table, versions
from loomgen.conformance.prepared import Prepared, open_prepared, prepare
from loomgen.conformance.table import all_cases
from loomgen.evidence import first_card, write_evidence
from loomgen.target import target_named
from loomgen.toolchain.find import NVCC, find_tool, tool_version
from tools.arguments import out_folder
from tools.running import exit_code

ROOT = Path(__file__).resolve().parents[1]


class Runner(Protocol):
    """What runs a case: a :class:`~loomgen.conformance.device.Device`."""

    def run(self, case: Case, inputs: Sequence[Array]) -> Array: ...


def prepare_all(out: Path) -> bool:
    """The host's half."""
    prepare(all_cases(), out, ROOT / "build" / "emulator")
    print(f"{len(all_cases())} cases prepared")
    return True


def run(prepared_folder: Path, out: Path, commit: str) -> bool:
    """The device's half: compiles, launches, compares, writes ``<out>/conformance.<card>.json``, prints a table.
    Whether all is within bounds."""
    prepared = open_prepared(prepared_folder)
    nvcc = find_tool(NVCC)
    card = first_card()
    rows = _run_on_device(all_cases(), prepared, nvcc)
    command = f"python -m tools.gpu_conformance prepare && python -m tools.gpu_conformance run --commit {commit}"
    used = versions(tool_version(nvcc), prepared.compiler)
    write_evidence(out, "conformance", card, map(asdict, rows), versions=used, commit=commit, command=command)
    print(table(rows))
    return all(row.ok for row in rows)


def _run_on_device(cases: Sequence[Case], prepared: Prepared, nvcc: Path) -> list[Row]:
    with TemporaryDirectory() as scratch:
        cubin = Path(scratch) / "conformance.cubin"
        compile_cubin(target_named("sm_90a"), nvcc, cubin)
        return compare_all(cases, prepared, lambda: open_device(cubin))


def compare_all(
    cases: Sequence[Case], prepared: Prepared, opened: Callable[[], AbstractContextManager[Runner]]
) -> list[Row]:
    """A row for each case; after one that fails to run the device is opened again."""
    rows: list[Row] = []
    while len(rows) < len(cases):
        with opened() as device:
            rows.extend(rows_of_context(cases[len(rows) :], prepared, device))
    return rows


def rows_of_context(cases: Sequence[Case], prepared: Prepared, device: Runner) -> Iterator[Row]:
    """Up to the first case that fails to run, which is a failed row: nothing runs in its context after it, and the
    others are wanted all the same.
    """
    for case in cases:
        inputs = case.inputs()
        host = prepared.output(case, inputs)
        try:
            output = device.run(case, inputs)
        except DeviceError as error:
            yield failed(case, error)
            return
        yield compared(case, compare(case.comparison, inputs, host, output))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu_conformance", description="Device primitives against their host bodies.")
    commands = parser.add_subparsers(dest="command", required=True)
    half = commands.add_parser("prepare", help="run the host bodies in the emulator")
    half.add_argument(
        "--out", type=out_folder, default=ROOT / "build" / "conformance", help="folder for the host's results"
    )
    half = commands.add_parser("run", help="run the kernels on the first GPU and compare")
    half.add_argument("--prepared", type=Path, default=ROOT / "build" / "conformance", help="what prepare wrote")
    half.add_argument("--out", type=out_folder, default=ROOT / "docs" / "evidence", help="folder for the document")
    half.add_argument("--commit", required=True, help="the commit that is compared, for the document")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.command == "run":
        return exit_code(lambda: run(options.prepared, options.out, options.commit))
    return exit_code(lambda: prepare_all(options.out))


if __name__ == "__main__":
    sys.exit(main())
