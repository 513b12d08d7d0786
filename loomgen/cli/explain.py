"""``loomgen explain``: what the passes make of a stage."""

from __future__ import annotations

from typing import Annotated

import typer

from loomgen.cli.options import OneArchOption
from loomgen.cli.project import Project, matching


def explain(
    ctx: typer.Context,
    stage: Annotated[str, typer.Argument(help="A stage, or a kernel's whole name; globs are allowed.")],
    arch: OneArchOption = "sm_100a",
    after: Annotated[str | None, typer.Option(help="Print the program as this pass leaves it.")] = None,
    schedule: Annotated[bool, typer.Option("--schedule", help="Print the whole schedule, inferred parts too.")] = False,
) -> None:
    """Print a stage's program after a pass, or its schedule with everything that was inferred.

    A stage with several kernels is explained by the first of them; the others are named on stderr.
    """
    from loomgen.emit.explain import explain as explain_kernel
    from loomgen.passes.schedule_text import schedule_text
    from loomgen.target import target_named

    if schedule and after is not None:
        raise typer.BadParameter("--after and --schedule exclude each other")
    project: Project = ctx.obj
    kernel, *others = matching(project.kernels(), stage)
    target = target_named(arch)
    text = schedule_text(kernel, target) if schedule else explain_kernel(kernel, target, after)
    typer.echo(text.rstrip("\n"))
    if others:
        names = "\n".join(f"  {other.name}" for other in others)
        typer.echo(f"explained {kernel.name}; other kernels that match:\n{names}", err=True)
