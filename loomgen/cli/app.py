"""The application: its commands, and how errors become messages and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from loomgen.cli.bench import bench
from loomgen.cli.build import build
from loomgen.cli.census import census
from loomgen.cli.doctor import doctor
from loomgen.cli.errors import report
from loomgen.cli.exit_codes import EPILOG
from loomgen.cli.explain import explain
from loomgen.cli.fuzz import fuzz
from loomgen.cli.list_kernels import list_kernels
from loomgen.cli.mutate import mutate
from loomgen.cli.plan import plan
from loomgen.cli.project import Project, default_root
from loomgen.cli.render import render
from loomgen.cli.schema import schema
from loomgen.cli.verify import verify

_SHOWN_BY_TYPER = (typer.Exit, typer.Abort, *typer.BadParameter.__bases__, BrokenPipeError)
"""Exits, wrong usage (the base of BadParameter, which typer does not export), a reader that wants no more."""


class _ReportingGroup(TyperGroup):
    """Prints what a command raises as a user wants to read it."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(error, _SHOWN_BY_TYPER):
                raise
            root = ctx.obj.root if isinstance(ctx.obj, Project) else default_root()
            raise typer.Exit(report(error, root)) from None


def _build_app() -> typer.Typer:
    application = typer.Typer(
        cls=_ReportingGroup,
        help="Compile YAML stage specs to deterministic CUDA kernels for Gated DeltaNet.",
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    application.callback()(_options)
    for command in (render, list_kernels, explain, build, census, verify, mutate, fuzz, bench, plan, doctor, schema):
        application.command(name=command.__name__.split("_")[0], epilog=EPILOG)(command)
    return application


def _options(
    ctx: typer.Context,
    root: Annotated[Path | None, typer.Option(help="The project: the folder that holds specs/ and generated/.")] = None,
) -> None:
    ctx.obj = Project(root=default_root() if root is None else root.resolve())


app = _build_app()


def main() -> None:
    """The console script."""
    app(prog_name="loomgen")
