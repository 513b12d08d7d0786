"""Measuring cases: results against float64, bits against bits, times side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from loomgen.bench.checks import POLLUTED_BYTES, errors_of, repeats_equal
from loomgen.bench.evidence import Row
from loomgen.bench.implementations import Call, Implementation
from loomgen.bench.inputs import Inputs, make_inputs
from loomgen.bench.reference import recurrent_reference
from loomgen.bench.timing import Settings, Timer, Times, measure_times
from loomgen.bench.workloads import Case, Gate

_MESSAGE_CHARACTERS = 300

Reference = tuple[Tensor, Tensor]


@dataclass(slots=True)
class References:
    """The float64 results of the case before: the next one often differs in layout alone."""

    _of: tuple[str, Gate, bool] | None = None
    _kept: Reference | None = None

    def of(self, case: Case, x: Inputs) -> Reference:
        content = (case.workload.content, case.gate, case.with_state)
        if self._kept is None or self._of != content:
            self._kept = None
            self._of, self._kept = content, recurrent_reference(x)
        return self._kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """``implementations``, timed by ``timer`` on tensors of ``device``."""

    implementations: Sequence[Implementation]
    timer: Timer
    device: torch.device
    settings: Settings = field(default_factory=Settings)
    polluted_bytes: int = POLLUTED_BYTES
    _references: References = field(default_factory=References, repr=False)

    @torch.no_grad()
    def measure(self, case: Case) -> Row:
        """An implementation that raises on the way is a failure of the row; the others are measured all the same."""
        x = make_inputs(case, self.device)
        failures: dict[str, str] = {}
        times = self._times(x, failures) if case.timed else {}
        reference = self._references.of(case, x)
        errors: dict[str, Mapping[str, float]] = {}
        equal: dict[str, bool] = {}
        for implementation in self._alive(failures):
            name = implementation.name
            try:
                call = implementation.bind(x, True)
                first = call()
                errors[name] = errors_of(implementation, first, reference)
                equal[name] = repeats_equal(call, first, self.settings.repeats, polluted_bytes=self.polluted_bytes)
            except Exception as error:  # whatever a peer raises, the others' results are wanted
                failures[name] = _message(error)
        return Row(case=case, times=times, rel_l2=errors, repeats_equal=equal, failures=failures)

    def _times(self, x: Inputs, failures: dict[str, str]) -> dict[str, Times]:
        calls: dict[str, Call] = {}
        for implementation in self.implementations:
            try:
                call = implementation.bind(x, False)
                call()  # compiles and tunes what it has to
            except Exception as error:  # whatever a peer raises, the others' times are wanted
                failures[implementation.name] = _message(error)
                continue
            calls[implementation.name] = call
        try:
            return measure_times(calls, self.timer, self.settings) if calls else {}
        except Exception as error:  # nobody's times are worth anything then, the next row's may be
            failures.update(dict.fromkeys(calls, _message(error)))
            return {}

    def _alive(self, failures: Mapping[str, str]) -> list[Implementation]:
        return [implementation for implementation in self.implementations if implementation.name not in failures]


def _message(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_MESSAGE_CHARACTERS]


def measure_all(
    bench: Bench,
    cases: Sequence[Case],
    *,
    deadline: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    on_row: Callable[[list[Row]], None] = lambda rows: None,
) -> tuple[list[Row], list[str]]:
    """The rows of ``cases`` in their order, and the keys of those that ``deadline`` (of ``clock``, seconds) left
    out: a case whose time would run past it, judged by the longest before it, is not begun. ``on_row`` is shown the
    rows so far after each."""
    rows: list[Row] = []
    longest = 0.0
    for n, case in enumerate(cases):
        start = clock()
        if deadline is not None and start + longest > deadline:
            return rows, [left.key for left in cases[n:]]
        rows.append(bench.measure(case))
        longest = max(longest, clock() - start)
        on_row(rows)
    return rows, []
