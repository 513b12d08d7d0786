"""``loomgen list``: the kernels that the specs describe."""

from __future__ import annotations

import typer

from loomgen.cli.options import JsonOption, StageOption
from loomgen.cli.output import show
from loomgen.cli.project import Project, matching


def list_kernels(ctx: typer.Context, stage: StageOption = None, as_json: JsonOption = False) -> None:
    """List the kernels of the specs."""
    project: Project = ctx.obj
    rows = [
        {
            "kernel": str(kernel.name),
            "stage": kernel.name.stage,
            "variant": kernel.name.variant,
            "instantiation": kernel.name.instantiation,
            "family": kernel.family,
            "targets": list(kernel.targets),
            "spec": kernel.spec_path,
            "spec_digest": kernel.spec_digest,
        }
        for kernel in matching(project.kernels(), stage)
    ]
    columns = {"kernel": "kernel", "family": "family", "targets": "targets", "spec": "spec"}
    show(rows, columns, as_json=as_json)
