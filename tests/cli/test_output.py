"""Progress counts what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from loomgen.cli.output import counting


def test_a_bar_starts_at_none_and_ends_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, int]] = []

    @contextmanager
    def progress(description: str) -> Iterator[Callable[[int, int], None]]:
        yield lambda done, total: seen.append((description, done, total))

    monkeypatch.setattr("loomgen.cli.output.progress", progress)
    with counting("verifying", 2) as on_kernel:
        assert seen == [("verifying", 0, 2)]
        on_kernel("copy", 0)
        on_kernel()
    assert seen == [("verifying", done, 2) for done in (0, 1, 2)]
