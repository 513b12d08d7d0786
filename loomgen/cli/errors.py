"""How an error is shown, and the exit code that it gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from loomgen.cli.exit_codes import ExitCode
from loomgen.errors import InternalError, LoomgenError, SpecError
from loomgen.toolchain.errors import BuildFailed
from loomgen.toolchain.find import MissingTool


def report(error: LoomgenError, root: Path) -> ExitCode:
    """Print ``error`` to stderr and return the code to exit with."""
    match error:
        case SpecError():
            typer.echo(_spec_error(error, root), err=True)
            return ExitCode.BAD_INPUT
        case MissingTool():
            typer.echo(f"error: {error}", err=True)
            return ExitCode.MISSING_TOOL
        case BuildFailed():
            typer.echo(f"error: the build failed\n{error}", err=True)
            return ExitCode.CHECK_FAILED
        case InternalError():
            typer.echo(f"{error}\nThis is a fault of loomgen, not of your spec.", err=True)
            return ExitCode.INTERNAL
        case _:
            typer.echo(f"error: {error}", err=True)
            return ExitCode.BAD_INPUT


@contextmanager
def faults_fail() -> Iterator[None]:
    """A fault that the emulator finds is shown, and is a check that failed."""
    from loomgen.emulator import EmulatorFault

    try:
        yield
    except EmulatorFault as fault:
        typer.echo(f"fault: {fault}", err=True)
        raise typer.Exit(ExitCode.CHECK_FAILED) from None


def _spec_error(error: SpecError, root: Path) -> str:
    """Every diagnostic with its source line, then how many there are."""
    from loomgen.spec import render_error

    paths = sorted({diagnostic.span.path for diagnostic in error.diagnostics})
    files = {path: root / path for path in paths if (root / path).is_file()}
    sources = {path: file.read_text(encoding="utf-8", errors="replace") for path, file in files.items()}
    n_errors = len(error.diagnostics)
    return f"{render_error(error, sources)}\n{n_errors} {'error' if n_errors == 1 else 'errors'}"
