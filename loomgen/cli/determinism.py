"""``loomgen verify --determinism``: the operator and its backward give the same bits, whatever happens around them."""

from __future__ import annotations

import dataclasses

import typer

from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.output import counting, show

REPEATS, REPEATS_IN_SMALL = 100, 2

_COLUMNS = {
    "case": "case",
    "lengths": "lengths",
    "heads": "heads",
    "check": "check",
    "runs": "runs",
    "different": "different",
    "tensors": "in",
    "digest": "digest",
    "finite": "finite",
    "ok": "ok",
}


def verify_determinism(*, emulate: bool, arch: str, repeats: int | None, as_json: bool) -> None:
    """Print a row for each check of each shape; exits 1 where a bit differs, 3 without a GPU.

    ``emulate`` runs small shapes in the emulator instead, with :data:`REPEATS_IN_SMALL` repeats unless told otherwise.
    """
    from loomgen.target import target_named
    from loomgen.verify import determinism
    from loomgen.verify.machines import Emulator, Gpu

    machine = Emulator(target_named(arch).name) if emulate else Gpu()
    cases = tuple(map(determinism.in_small, determinism.SHAPES)) if emulate else determinism.SHAPES
    with counting("repeating", len(cases) * len(determinism.CHECKS)) as on_check:
        rows = determinism.verify_determinism(
            machine,
            cases,
            repeats=repeats or (REPEATS_IN_SMALL if emulate else REPEATS),
            on_check=on_check,
        )
    show([dataclasses.asdict(row) for row in rows], _COLUMNS, as_json=as_json)
    if not all(row.ok for row in rows):
        raise typer.Exit(ExitCode.CHECK_FAILED)
