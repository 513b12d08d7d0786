"""What a run of FLA's tests has found so far: a row for each test, and the tests without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from tools.fla_plugin import PROPERTY

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRow:
    """One test of FLA: how it ended, the calls that loomgen ran in it, those of them that have a gradient, and why
    others were left to FLA. A test with neither calls other functions of FLA. ``why`` it did not pass.
    """

    __test__ = False

    test: str
    outcome: str
    calls: int = 0
    differentiable: int = 0
    left: tuple[str, ...] = ()
    seconds: float = 0.0
    why: str | None = None

    @property
    def ok(self) -> bool:
        return self.outcome in (PASSED, SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The rows so far, and the names of the tests that have none."""

    rows: tuple[TestRow, ...]
    not_run: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """All tests ran, none failed, and loomgen was called."""
        return not self.not_run and all(row.ok for row in self.rows) and any(row.calls for row in self.rows)

    def after(self, first: TestRow) -> Found:
        """With ``first`` before all other rows."""
        return Found(rows=(first, *self.rows), not_run=self.not_run)


@dataclass(slots=True)
class Collector:
    """A pytest plugin that shows ``on_row`` what was found after each test; errors of set-ups and tear-downs count as
    failures. With workers of pytest-xdist it belongs into the process that starts them.
    """

    on_row: Callable[[Found], None] = lambda found: None
    chosen: tuple[str, ...] = ()
    rows: dict[str, TestRow] = field(default_factory=dict)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.chosen = tuple(_name(item.nodeid) for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Workers collect, each of them the same."""
        self.chosen = tuple(map(_name, ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == PASSED:
            return
        row = _row(report)
        self.rows[row.test] = row
        self.on_row(self.found())

    def found(self) -> Found:
        rows = sorted(self.rows.values(), key=lambda row: row.test)
        return Found(rows=tuple(rows), not_run=tuple(name for name in self.chosen if name not in self.rows))


def _name(nodeid: str) -> str:
    return nodeid.rpartition("::")[2]


def _row(report: pytest.TestReport) -> TestRow:
    seen: Mapping[str, Any] = dict(report.user_properties).get(PROPERTY, {})  # type: ignore[assignment]
    return TestRow(
        test=_name(report.nodeid),
        outcome=report.outcome,
        calls=seen.get("calls", 0),
        differentiable=seen.get("differentiable", 0),
        left=tuple(sorted(set(seen.get("left", ())))),
        seconds=round(report.duration, 3),
        why=_why(report),
    )


def _why(report: pytest.TestReport) -> str | None:
    """Of a test that did not pass."""
    if report.outcome == PASSED:
        return None
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    lines = report.longreprtext.strip().splitlines()
    return lines[-1] if lines else "unknown"


def document_row(row: TestRow) -> dict[str, Any]:
    return {**asdict(row), "ok": row.ok}


def line(row: TestRow) -> str:
    calls = f"{row.calls} calls, {row.differentiable} with gradients"
    left = row.why or "; ".join(row.left)
    return f"{row.test:<110} {row.outcome:<8} {calls:<30} {left}"


def summary(found: Found) -> str:
    rows = found.rows
    n_ours = sum(row.calls > 0 for row in rows)
    counts = {name: sum(row.outcome == name for row in rows) for name in (PASSED, FAILED, SKIPPED)}
    ended = ", ".join(f"{n} {name}" for name, n in counts.items())
    left_out = f"; NOT COMPLETE, {len(found.not_run)} not run" if found.not_run else ""
    return (
        f"{len(rows)} tests: {ended}; loomgen ran {sum(row.calls for row in rows)} calls in {n_ours} of them{left_out}"
    )
