"""Spec errors as text for a terminal: place, message, the source line with a caret, hint and expansion chain."""

from __future__ import annotations

from collections.abc import Mapping

from loomgen.errors import Diagnostic, Span, SpecError


def render_error(error: SpecError, sources: Mapping[str, str]) -> str:
    """All diagnostics of ``error``. ``sources`` maps a span's path to the file's text; an unknown path has no line.

    The text has no trailing newline.
    """
    return "\n".join(_render(item, sources.get(item.span.path)) for item in error.diagnostics)


def _render(item: Diagnostic, source: str | None) -> str:
    lines = [f"{item.span}: error {item.code}: {item.message}"]
    if source is not None:
        lines += _excerpt(item.span, source)
    if item.hint is not None:
        lines.append(f"  hint: {item.hint}")
    lines += [f"  {link}" for link in item.chain]
    return "\n".join(lines)


def _excerpt(span: Span, source: str) -> list[str]:
    rows = source.splitlines()
    if span.line > len(rows):
        return []
    row = rows[span.line - 1]
    margin = "".join("\t" if letter == "\t" else " " for letter in row[: span.col - 1])
    marks = "^" * max(1, min(span.end_col, len(row) + 1) - span.col)
    return [f"  {row}", f"  {margin}{marks}"]
