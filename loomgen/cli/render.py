"""``loomgen render``: bring generated/ and registry/ up to date, or check that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.options import ArchOption, StageOption
from loomgen.cli.output import counting
from loomgen.cli.project import Project, compiler, headers, matching

if TYPE_CHECKING:
    from loomgen.render import Difference, Selection

_MAX_DIFF_LINES = 200


def render(
    ctx: typer.Context,
    arch: ArchOption = "all",
    stage: StageOption = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a file is not as rendered.")] = False,
) -> None:
    """Write the sources, headers, manifest and registries that follow from the specs.

    Only files that change are written, and files that no spec accounts for are removed. With --arch or --stage,
    files that also speak of other targets or stages are left alone.
    """
    from loomgen.render import Selection, apply, compare, read_tree

    project: Project = ctx.obj
    selection = Selection.parse(arch, stage)
    expected = _render(project, selection)
    differences = compare(expected, read_tree(project.root, selection))
    if check:
        _report_check(differences, n_files=len(expected), mend=_command(arch, stage))
        return
    apply(project.root, differences)
    for difference in differences:
        typer.echo(f"{'removed' if difference.expected is None else 'written'} {difference.path}")
    typer.echo(f"{len(expected)} files, {len(differences)} brought up to date")
    if stage is not None:
        typer.echo(
            "the registries and the manifest speak of all stages: render without --stage to bring them up to date"
        )


def _render(project: Project, selection: Selection) -> dict[str, bytes]:
    """The selected part of the rendered tree."""
    from loomgen.render import render_tree

    kernels = selection.kernels(matching(project.kernels(), selection.stage_glob))
    total = sum(target.name in kernel.targets for kernel in kernels for target in selection.targets)
    with counting("rendering", total) as on_kernel:
        tree = render_tree(kernels, selection.targets, compiler(), headers(), on_kernel=on_kernel)
    return {path: content for path, content in tree.items() if selection.covers(path)}


def _report_check(differences: tuple[Difference, ...], *, n_files: int, mend: str) -> None:
    """Say what differs and how to mend it; exits 1 when anything does."""
    from loomgen.render import Change, unified_diff

    if not differences:
        typer.echo(f"{n_files} files are as rendered")
        return
    for difference in differences:
        typer.echo(f"{difference.change.value}: {difference.path}")
        if difference.change is Change.CHANGED:
            typer.echo(_shortened(unified_diff(difference)))
    typer.echo(f"{len(differences)} of {n_files} files differ; mend with: {mend}")
    raise typer.Exit(ExitCode.CHECK_FAILED)


def _shortened(diff: str) -> str:
    lines = diff.split("\n")
    if len(lines) <= _MAX_DIFF_LINES:
        return diff
    return "\n".join([*lines[:_MAX_DIFF_LINES], f"... {len(lines) - _MAX_DIFF_LINES} more lines"])


def _command(arch: str, stage: str | None) -> str:
    return f"loomgen render --arch {arch}" + ("" if stage is None else f" --stage '{stage}'")
