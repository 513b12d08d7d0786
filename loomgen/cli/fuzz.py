"""``loomgen fuzz``: random valid stages; does the emulator compute what the interpreter does?"""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.options import JsonOption
from loomgen.cli.output import progress
from loomgen.cli.project import Project
from loomgen.errors import MissingRequirement

if TYPE_CHECKING:
    from loomgen.fuzz import Report

_MISMATCH_FILE = Path("build") / "fuzz" / "mismatch.yaml"


def fuzz(
    ctx: typer.Context,
    count: Annotated[int, typer.Option(min=1, help="How many stages to generate.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Decides all of them.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Generate valid stages at random and compare the emulator with the interpreter, bit by bit.

    Every stage goes through the front end, the passes and the host compiler, and runs under two orders of threads.
    Exits 1 when one fails; the first failure is shrunk, printed and written to build/fuzz/mismatch.yaml.
    """
    if find_spec("hypothesis") is None:
        raise MissingRequirement("fuzzing needs hypothesis, which is not installed: pip install hypothesis")
    from loomgen.fuzz import fuzz as run_fuzz

    project: Project = ctx.obj
    with progress("fuzzing") as update:
        report = run_fuzz(count, seed, project.root / "build" / "fuzz", on_progress=update)
    if as_json:
        typer.echo(json.dumps(_as_json(report), indent=2))
    else:
        typer.echo(_summary(report))
    if report.failure is not None:
        _tell(report, project.root)
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _as_json(report: Report) -> dict[str, Any]:
    from loomgen.fuzz import to_file

    failure = report.failure
    found = None
    if failure is not None:
        found = {"kind": failure.outcome.kind, "message": failure.outcome.message, "spec": to_file(failure.case)}
    fields = {name: value for name, value in asdict(report).items() if name != "failure"}
    return {**fields, "kinds": dict(sorted(report.kinds.items())), "nodes": _by_count(report), "failure": found}


def _by_count(report: Report) -> dict[str, int]:
    return dict(sorted(report.nodes.items(), key=lambda item: (-item[1], item[0])))


def _summary(report: Report) -> str:
    lines = [f"{report.count} stages: {report.agreed} agree, {report.refused} refused, {report.failed} failed"]
    lines += [f"  {kind}: {n}" for kind, n in sorted(report.kinds.items()) if kind != "agrees"]
    return "\n".join([*lines, "nodes: " + ", ".join(f"{name} {n}" for name, n in _by_count(report).items())])


def _tell(report: Report, root: Path) -> None:
    from loomgen.fuzz import to_file

    assert report.failure is not None
    text = to_file(report.failure.case)
    path = root / _MISMATCH_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    outcome = report.failure.outcome
    typer.echo(f"error: {outcome.kind}: {outcome.message}\n{text}written to {_MISMATCH_FILE.as_posix()}", err=True)
