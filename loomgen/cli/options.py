"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

ArchOption = Annotated[str, typer.Option(help="A target: sm_90a, sm_100a, sm_103a or all.")]
OneArchOption = Annotated[str, typer.Option("--arch", help="The target: sm_90a, sm_100a or sm_103a.")]
StageOption = Annotated[
    str | None, typer.Option(help="Only stages or kernels that match this glob, for example 'fwd_*'.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Compilations at a time (default: ninja's choice).")]
