"""A whole run on the first GPU: from names of peers and suites to what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from loomgen.bench.evidence import Row, Run, versions_of
from loomgen.bench.gpu import DEVICE, GpuTimer, measure_ceilings, require_gpu
from loomgen.bench.implementations import OURS, Implementation, NoBackward, peer_named
from loomgen.bench.run import Bench, measure_all
from loomgen.bench.timing import Settings
from loomgen.bench.workloads import Case, Pass, Suite, select
from loomgen.errors import LoomgenError
from loomgen.evidence import first_card


class NoRows(LoomgenError):
    """A filter that leaves nothing to measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is wanted. ``deadline`` is of the monotonic clock, in seconds; ``commit`` and ``command`` go into the
    document."""

    peers: tuple[str, ...]
    suites: tuple[Suite, ...]
    filters: tuple[str, ...] = ()
    what: Pass = Pass.FWD
    commit: str
    command: str
    settings: Settings = field(default_factory=Settings)
    deadline: float | None = None

    def cases(self) -> tuple[Case, ...]:
        """Raises :class:`NoRows`."""
        found = select(self.suites, self.filters)
        if not found:
            suites = ", ".join(suite.value for suite in self.suites)
            raise NoRows(f"no row of {suites} has a key with {' or '.join(map(repr, self.filters))} in it")
        return found

    def implementations(self) -> tuple[Implementation, ...]:
        """Ours, then the peers, installed or not; raises UnknownPeer and NoBackward."""
        wanted = (OURS, *map(peer_named, dict.fromkeys(self.peers)))
        for implementation in wanted:
            if self.what is not Pass.FWD and not implementation.backward:
                raise NoBackward(f"{implementation.name} has no backward: it cannot be measured in {self.what.value}")
        return wanted


def require_all(request: Request) -> tuple[tuple[Case, ...], tuple[Implementation, ...]]:
    """What will be measured, if all of it is there; raises :class:`NoRows`, NoGpu, UnknownPeer, NoBackward and
    MissingPeer."""
    cases, implementations = request.cases(), request.implementations()
    require_gpu()
    for implementation in implementations:
        implementation.require()
    return cases, implementations


def measure(request: Request, on_run: Callable[[Run], None] = lambda run: None) -> Run:
    """Measures what is wanted; ``on_run`` is shown what was found so far after each row, with the rows
    still to come as not measured.

    Raises, before anything is measured, what :func:`require_all` raises.
    """
    cases, implementations = require_all(request)
    card, versions = first_card(), versions_of(implementations)
    timer = GpuTimer()
    with torch.no_grad():
        ceilings = measure_ceilings(timer)

    def run_of(rows: Sequence[Row], not_measured: Sequence[str]) -> Run:
        return Run(
            card=card, versions=versions, commit=request.commit, command=request.command, what=request.what,
            settings=request.settings, ceilings=ceilings, rows=tuple(rows), not_measured=tuple(not_measured),
        )  # fmt: skip

    def show(rows: Sequence[Row]) -> None:
        on_run(run_of(rows, [case.key for case in cases[len(rows) :]]))

    bench = Bench(
        implementations=implementations, timer=timer, device=DEVICE, what=request.what, settings=request.settings
    )
    return run_of(*measure_all(bench, cases, deadline=request.deadline, on_row=show))
