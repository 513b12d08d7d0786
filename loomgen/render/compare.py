"""How a tree on disk differs from the rendered one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Change(Enum):
    """What is wrong with a file on disk."""

    MISSING = "missing"
    EXTRA = "extra"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A file that is not as rendered; ``expected`` is None for an extra one, ``actual`` for a missing one."""

    path: str
    change: Change
    expected: bytes | None
    actual: bytes | None


def compare(expected: Mapping[str, bytes], actual: Mapping[str, bytes]) -> tuple[Difference, ...]:
    """All differences, sorted by path."""
    paths = sorted(expected.keys() | actual.keys())
    return tuple(_difference(path, expected, actual) for path in paths if expected.get(path) != actual.get(path))


def _difference(path: str, expected: Mapping[str, bytes], actual: Mapping[str, bytes]) -> Difference:
    wanted, found = expected.get(path), actual.get(path)
    if found is None:
        return Difference(path=path, change=Change.MISSING, expected=wanted, actual=None)
    change = Change.EXTRA if wanted is None else Change.CHANGED
    return Difference(path=path, change=change, expected=wanted, actual=found)


def unified_diff(difference: Difference) -> str:
    """From what is on disk to what is rendered; bytes that are not UTF-8 are shown escaped."""
    lines = difflib.unified_diff(
        _lines(difference.actual),
        _lines(difference.expected),
        fromfile=f"{difference.path} (on disk)",
        tofile=f"{difference.path} (rendered)",
        lineterm="",
    )
    return "\n".join(lines)


def _lines(content: bytes | None) -> list[str]:
    return [] if content is None else content.decode("utf-8", "backslashreplace").split("\n")
