"""``loomgen mutate``: does each line of synchronisation and each lane map of the kernels matter?"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

import typer

from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.options import JsonOption, OneArchOption, StageOption
from loomgen.cli.output import progress, show
from loomgen.cli.project import NoSuchStage, Project

if TYPE_CHECKING:
    from loomgen.mutation import MutantRow
    from loomgen.registry import KernelEntry

_COLUMNS = {
    "kernel": "kernel",
    "line": "line",
    "kind": "mutant",
    "text": "text",
    "killed_by": "found out by",
    "how": "how",
}


def mutate(
    ctx: typer.Context, arch: OneArchOption = "sm_100a", stage: StageOption = None, as_json: JsonOption = False
) -> None:
    """Change one line of a kernel at a time and let the emulator find it out.

    Barriers, waits and commits are deleted and weakened, lane maps rotated, ring slots shifted, tiles accessed under
    another swizzle. Exits 1 when a mutant survives: neither a fault nor another bit on any of the small problems;
    and when a kernel is at fault as it stands.
    """
    from loomgen.mutation import mutate as run_mutants

    project: Project = ctx.obj
    with progress("mutating") as update:
        rows = run_mutants(_entries(project, arch, stage), project.root, on_mutant=update)
    show([dataclasses.asdict(row) for row in rows], _COLUMNS, as_json=as_json)
    survivors = [row for row in rows if row.killed_by is None]
    if not as_json:
        typer.echo(_summary(rows))
    for row in survivors:
        typer.echo(f"error: survived: {row.kernel}:{row.line}: {row.kind}: {row.text}", err=True)
    if survivors:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _entries(project: Project, arch: str, stage: str | None) -> list[KernelEntry]:
    """The registry's kernels whose stage or name matches the glob; raises NoSuchStage if none does."""
    from loomgen.ir.kernel import KernelName
    from loomgen.registry import load
    from loomgen.target import target_named

    kernels = load(target_named(arch).name, project.root).kernels
    found = [entry for entry in kernels if stage is None or KernelName.parse(entry.name).matches(stage)]
    if not found:
        raise NoSuchStage(stage or "*", (entry.stage for entry in kernels))
    return found


def _summary(rows: list[MutantRow]) -> str:
    """``deleted 32 of 32, lanes 18 of 18``: mutants found out, by kind."""
    made = Counter(row.kind for row in rows)
    killed = Counter(row.kind for row in rows if row.killed_by is not None)
    return "found out: " + ", ".join(f"{kind} {killed[kind]} of {n}" for kind, n in sorted(made.items()))
