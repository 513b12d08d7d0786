"""Tables, JSON and progress bars."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

Row = Mapping[str, Any]

_FILE_WIDTH = 240
"""Columns of a table that does not go to a terminal: wide enough not to fold kernel names."""


def show(rows: Sequence[Row], columns: Mapping[str, str], *, as_json: bool) -> None:
    """Print ``rows``: as JSON, whole; or as a table of ``columns`` (key to heading)."""
    if as_json:
        typer.echo(json.dumps(list(rows), indent=2))
        return
    table = Table(box=SIMPLE)
    for key, heading in columns.items():
        table.add_column(heading, justify="right" if _is_number(rows, key) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row[key]) for key in columns))
    Console(width=None if sys.stdout.isatty() else _FILE_WIDTH, markup=False, highlight=False).print(table)


def _is_number(rows: Sequence[Row], key: str) -> bool:
    return bool(rows) and all(isinstance(row[key], int | float) and not isinstance(row[key], bool) for row in rows)


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.3g}"
        case list() | tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


@contextmanager
def progress(description: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal's stderr, nothing elsewhere; yields ``update(done, total)``."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def counting(description: str, total: int) -> Iterator[Callable[..., None]]:
    """A progress bar of ``total`` things; yields what is called after each of them, with whatever says which it was."""
    with progress(description) as update:
        update(0, total)
        done = count(1)
        yield lambda *_: update(next(done), total)
