"""How an error is shown, and the exit code that it gives."""

from __future__ import annotations

from pathlib import Path
from traceback import format_exception

import typer

from loomgen.cli.exit_codes import ExitCode
from loomgen.errors import InternalError, KernelFault, LoomgenError, MissingRequirement, SpecError
from loomgen.toolchain.errors import BuildFailed

_OUR_FAULT = "This is a fault of loomgen, not of your spec."


def report(error: Exception, root: Path) -> ExitCode:
    """Print ``error`` to stderr and return the code to exit with."""
    message, code = _described(error, root)
    typer.echo(message, err=True)
    return code


def _described(error: Exception, root: Path) -> tuple[str, ExitCode]:
    match error:
        case SpecError():
            return _spec_error(error, root), ExitCode.BAD_INPUT
        case MissingRequirement():
            return f"error: {error}", ExitCode.MISSING_TOOL
        case BuildFailed():
            return f"error: the build failed\n{error}", ExitCode.CHECK_FAILED
        case KernelFault():
            return f"fault: {error}", ExitCode.CHECK_FAILED
        case InternalError():
            return f"{error}\n{_OUR_FAULT}", ExitCode.INTERNAL
        case LoomgenError():
            return f"error: {error}", ExitCode.BAD_INPUT
        case OSError(filename=str() | Path() as path, strerror=str() as reason):
            return f"error: {path}: {reason}", ExitCode.BAD_INPUT
        case OSError():
            return f"error: {error}", ExitCode.BAD_INPUT
        case ModuleNotFoundError(name=str() as name) if name.partition(".")[0] != "loomgen":
            return f"error: the package {name} is missing; `loomgen doctor` says what else is", ExitCode.MISSING_TOOL
        case _:
            return f"{''.join(format_exception(error))}{_OUR_FAULT}", ExitCode.INTERNAL


def _spec_error(error: SpecError, root: Path) -> str:
    """Every diagnostic with its source line, then how many there are."""
    from loomgen.spec import render_error

    paths = sorted({diagnostic.span.path for diagnostic in error.diagnostics})
    files = {path: root / path for path in paths if (root / path).is_file()}
    sources = {path: file.read_text(encoding="utf-8", errors="replace") for path, file in files.items()}
    n_errors = len(error.diagnostics)
    return f"{render_error(error, sources)}\n{n_errors} {'error' if n_errors == 1 else 'errors'}"
