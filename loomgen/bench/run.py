"""Measuring cases: results against float64, bits against bits, times side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from loomgen.bench.checks import errors_of, repeats_equal
from loomgen.bench.evidence import Row
from loomgen.bench.implementations import Implementation
from loomgen.bench.inputs import Inputs, OutputGradients, make_gradients, make_inputs
from loomgen.bench.reference import recurrent_reference
from loomgen.bench.steps import Results, Step, forward_step, training_step
from loomgen.bench.timing import Settings, Timer, Times, measure_times
from loomgen.bench.training_reference import training_reference
from loomgen.bench.workloads import Case, Pass
from loomgen.verify.fingerprint import digests

_MESSAGE_CHARACTERS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A case's tensors; in a training call with the ``gradients`` of its outputs."""

    case: Case
    x: Inputs
    gradients: OutputGradients | None

    def step(self, implementation: Implementation, *, final: bool) -> Step:
        if self.gradients is None:
            return forward_step(implementation, self.x, final=final)
        return training_step(implementation, self.x, self.gradients, final=final)

    def reference(self) -> Results:
        """What every step with the final states is to return, in float64."""
        if self.gradients is None:
            return dict(zip(("o", "state"), recurrent_reference(self.x), strict=True))
        return training_reference(self.x, self.gradients)


@dataclass(slots=True)
class References:
    """The float64 results of the case before: the next one often differs in layout alone."""

    _of: tuple[object, ...] | None = None
    _kept: Results | None = None

    def of(self, given: Given) -> Results:
        case = given.case
        content = (case.workload.content, case.gate, case.twist, case.with_state)
        if self._kept is None or self._of != content:
            self._kept = None
            self._of, self._kept = content, given.reference()
        return self._kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """``implementations``, timed by ``timer`` on tensors of ``device``: ``what`` of them."""

    implementations: Sequence[Implementation]
    timer: Timer
    device: torch.device
    what: Pass = Pass.FWD
    settings: Settings = field(default_factory=Settings)
    _references: References = field(default_factory=References, repr=False)

    @torch.no_grad()
    def measure(self, case: Case) -> Row:
        """An implementation that raises on the way is a failure of the row; the others are measured all the same."""
        given = self._given(case)
        failures: dict[str, str] = {}
        times = self._times(given, failures) if case.timed else {}
        reference = self._references.of(given)
        errors: dict[str, Mapping[str, float]] = {}
        equal: dict[str, bool] = {}
        prints: dict[str, Mapping[str, str]] = {}
        for implementation in self._alive(failures):
            name = implementation.name
            try:
                step = given.step(implementation, final=True)
                first = step()
                errors[name] = errors_of(first, reference)
                prints[name] = digests(first)
                equal[name] = self._repeats_equal(implementation, step, first)
            except Exception as error:  # whatever a peer raises, the others' results are wanted
                failures[name] = _message(error)
        return Row(case=case, times=times, rel_l2=errors, repeats_equal=equal, digests=prints, failures=failures)

    def _given(self, case: Case) -> Given:
        x = make_inputs(case, self.device)
        return Given(case=case, x=x, gradients=None if self.what is Pass.FWD else make_gradients(case, x))

    def _repeats_equal(self, implementation: Implementation, step: Step, first: Results) -> bool:
        repeats = self.settings.repeats if implementation.ours else self.settings.peer_repeats
        return repeats_equal(step, first, repeats)

    def _times(self, given: Given, failures: dict[str, str]) -> dict[str, Times]:
        calls: dict[str, Step] = {}
        for implementation in self.implementations:
            try:
                call = given.step(implementation, final=False)
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
    out: a case whose time would run past it, judged by the longer of the two before it, is not begun. ``on_row`` is
    shown the rows so far after each."""
    rows: list[Row] = []
    seconds = [0.0]
    for n, case in enumerate(cases):
        start = clock()
        if deadline is not None and start + max(seconds[-2:]) > deadline:
            return rows, [left.key for left in cases[n:]]
        rows.append(bench.measure(case))
        seconds.append(clock() - start)
        on_row(rows)
    return rows, []
