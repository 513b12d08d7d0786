"""``loomgen bench``: time loomgen beside its peers on a GPU."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.options import JsonOption
from loomgen.cli.output import progress
from loomgen.documents import NotWritable, require_writable, write_document
from loomgen.errors import LoomgenError

if TYPE_CHECKING:
    from loomgen.bench.evidence import Run
    from loomgen.bench.session import Request


class SuiteName(str, Enum):
    """What is measured."""

    PERF = "perf"
    GATES = "gates"
    ACCURACY = "accuracy"
    HARD = "hard"


class PassName(str, Enum):
    """What of the function is run."""

    FWD = "fwd"
    FWDBWD = "fwdbwd"


def _writable(out: Path) -> Path:
    try:
        require_writable(out)
    except NotWritable as error:
        raise typer.BadParameter(str(error)) from None
    if out.suffix != ".json":
        raise typer.BadParameter(f"{out}: want a name that ends in .json; the roofline goes beside it, as .png")
    return out


def bench(
    ctx: typer.Context,
    out: Annotated[
        Path,
        typer.Option(callback=_writable, help="The JSON document to write; the roofline goes beside it, as PNG."),
    ],
    peer: Annotated[list[str] | None, typer.Option(help="A peer to measure beside loomgen; repeatable.")] = None,
    suite: Annotated[list[SuiteName] | None, typer.Option(help="What is measured; repeatable.")] = None,
    filter_: Annotated[
        list[str] | None, typer.Option("--filter", help="Only rows whose key contains this; repeatable.")
    ] = None,
    pass_: Annotated[PassName, typer.Option("--pass", help="What of the function is run.")] = PassName.FWD,
    commit: Annotated[str | None, typer.Option(help="The commit, for the document (default: ask git).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Time loomgen and its peers on the first GPU: interleaved in one process, the L2 cache flushed before each call.

    Prints GPU kernel time and call time of every row, and the geometric mean of ours over each peer's. Exits 1 where
    an implementation failed on a row or our repeats are not the same bits, 3 without a GPU or a peer that was named.
    """
    from loomgen.bench.evidence import document
    from loomgen.bench.session import Request
    from loomgen.bench.table import table
    from loomgen.bench.workloads import Pass, Suite
    from loomgen.evidence import command_of, commit_of

    request = Request(
        peers=tuple(peer or ()),
        suites=tuple(Suite(chosen.value) for chosen in suite or [SuiteName.PERF]),
        filters=tuple(filter_ or ()),
        what=Pass(pass_.value),
        commit=commit_of(ctx.obj.root) if commit is None else commit,
        command=command_of(["loomgen"], sys.argv[1:]),
    )
    run = _measured(request, out)
    write_document(out, document(run))
    typer.echo(json.dumps(document(run), indent=2) if as_json else table(run))
    _draw(run, out.with_suffix(".png"))
    if any(row.failures or not row.repeats_equal.get("loomgen", False) for row in run.rows):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _measured(request: Request, out: Path) -> Run:
    """The run; what was found so far is in ``out`` after each row."""
    from loomgen.bench.evidence import document
    from loomgen.bench.session import measure

    total = len(request.cases())
    with progress("measuring") as update:

        def on_run(run: Run) -> None:
            write_document(out, document(run))
            update(len(run.rows), total)

        return measure(request, on_run)


def _draw(run: Run, path: Path) -> None:
    """The roofline, or a line on stderr that says why there is none."""
    from loomgen.bench.roofline import draw_roofline

    try:
        draw_roofline(run, path)
    except LoomgenError as error:
        typer.echo(str(error), err=True)
