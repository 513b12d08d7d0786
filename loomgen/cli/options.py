"""Options that several commands share, and values that several have."""

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


def parse_lengths(option: str, text: str) -> tuple[int, ...]:
    """``0,15,64`` as sequence lengths; raises BadParameter naming ``option``."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise typer.BadParameter(f"{option} {text!r}: want lengths separated by commas, such as 0,15,64")
    return tuple(int(part) for part in parts)


def parse_heads(option: str, text: str) -> tuple[int, int]:
    """``2/4`` as key heads and value heads; raises BadParameter naming ``option``."""
    parts = text.split("/")
    if len(parts) != 2 or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"{option} {text!r}: want key heads / value heads, such as 2/4")
    key_heads, value_heads = (int(part) for part in parts)
    if value_heads % key_heads != 0:
        raise typer.BadParameter(f"{option} {text!r}: value heads must be a multiple of key heads")
    return key_heads, value_heads
