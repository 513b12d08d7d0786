"""Rounds of cases, spread over processes; the first failure is shrunk.

A round's cases are a function of the run's seed and the round's number alone. To shrink a failure its round is drawn
once more: the cases before it are known to agree, so the engine arrives at the failing one and reduces it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from loomgen.fuzz.case import Case
from loomgen.fuzz.check import Outcome, Verdict, check_cases
from loomgen.fuzz.spec import cases
from loomgen.toolchain.find import GXX, find_tool

ROUND = 50
"""Cases compiled into one library."""
_PROCESSES = 2
_SEED_STRIDE = 1_000_003
_TRIALS = 150
"""Candidates that a shrink may compile: each costs most of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A case that failed, as small as it could be made, and what it does."""

    case: Case
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """``kinds`` counts what became of the cases, ``nodes`` what those that ran consist of."""

    count: int
    agreed: int
    refused: int
    failed: int
    kinds: Counter[str]
    nodes: Counter[str]
    failure: Failure | None


def fuzz(
    count: int,
    run_seed: int,
    cache: Path,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    trials: int = _TRIALS,
) -> Report:
    """Checks ``count`` cases of ``run_seed`` and shrinks the first failure, for which ``trials`` candidates may be
    compiled. ``cache`` keeps the compiled emulator.

    Raises MissingTool where there is no g++.
    """
    find_tool(GXX)
    sizes = [min(ROUND, count - at) for at in range(0, count, ROUND)]
    outcomes: list[Outcome] = []
    for found in _rounds(run_seed, sizes, cache):
        outcomes += found
        on_progress(len(outcomes), count)
    failed = next((at for at, outcome in enumerate(outcomes) if outcome.verdict is Verdict.FAILED), None)
    failure = None if failed is None else _shrink(run_seed, failed, count, outcomes[failed], cache, trials)
    return _report(outcomes, failure)


def _report(outcomes: Sequence[Outcome], failure: Failure | None) -> Report:
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    return Report(
        count=len(outcomes),
        agreed=verdicts[Verdict.AGREES],
        refused=verdicts[Verdict.REFUSED],
        failed=verdicts[Verdict.FAILED],
        kinds=Counter(outcome.kind for outcome in outcomes),
        nodes=sum((outcome.nodes for outcome in outcomes), Counter()),
        failure=failure,
    )


# --------------------------------------------------------------------------- rounds


def _rounds(run_seed: int, sizes: Sequence[int], cache: Path) -> Iterator[list[Outcome]]:
    """The outcomes of each round, in order."""
    tasks = [(run_seed, number, size, cache) for number, size in enumerate(sizes)]
    if len(tasks) < _PROCESSES:
        yield from map(_check_round, tasks)
        return
    with get_context("spawn").Pool(_PROCESSES) as pool:
        yield from pool.imap(_check_round, tasks)


def _check_round(task: tuple[int, int, int, Path]) -> list[Outcome]:
    run_seed, number, size, cache = task
    return check_cases(draw_round(run_seed, number, size), cache)


def draw_round(run_seed: int, number: int, size: int) -> list[Case]:
    """The cases of a round."""
    drawn: list[Case] = []
    _explore(run_seed, number, size, drawn.append, shrinks=False)
    return list(islice(drawn, size))


def _explore(run_seed: int, number: int, size: int, use: Callable[[Case], None], *, shrinks: bool) -> None:
    phases = (Phase.generate, Phase.shrink) if shrinks else (Phase.generate,)

    @seed(run_seed * _SEED_STRIDE + number)
    @settings(
        max_examples=size,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=tuple(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(cases())
    def explore(case: Case) -> None:
        use(case)

    explore()


# --------------------------------------------------------------------------- shrinking


class _StillFails(Exception):
    """Tells the engine that a candidate fails like the case that is being shrunk."""


@dataclass(slots=True)
class _Trials:
    """Runs candidates, keeps the smallest that fails in the way looked for, and gives up after a while."""

    wanted: str
    best: Failure
    cache: Path
    skip: int
    most: int
    known: dict[Case, bool] = field(default_factory=dict)

    def __call__(self, case: Case) -> None:
        if self.skip > 0:
            self.skip -= 1
            return
        if case not in self.known:
            self.known[case] = self._fails(case)
        if self.known[case]:
            raise _StillFails

    def _fails(self, case: Case) -> bool:
        if case == self.best.case:
            return True
        if len(self.known) > self.most:
            return False
        (outcome,) = check_cases([case], self.cache)
        fails = outcome.verdict is Verdict.FAILED and outcome.kind == self.wanted
        if fails and _size(case) <= _size(self.best.case):
            self.best = Failure(case=case, outcome=outcome)
        return fails


def _size(case: Case) -> tuple[int, int, str]:
    return len(case.text.splitlines()), len(case.text), case.text


def _shrink(run_seed: int, failed: int, count: int, outcome: Outcome, cache: Path, most: int) -> Failure:
    """The ``failed``-th case of all, made smaller."""
    number, at = divmod(failed, ROUND)
    size = min(ROUND, count - number * ROUND)
    case = draw_round(run_seed, number, size)[at]
    first = Failure(case=case, outcome=outcome)
    trials = _Trials(wanted=outcome.kind, best=first, cache=cache, skip=at, most=most)
    with suppress(_StillFails):
        _explore(run_seed, number, size, trials, shrinks=True)
    return trials.best
