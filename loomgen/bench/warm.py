"""Compiling what peers compile at their first call, many processes at a time: ``python -m loomgen.bench.warm``.

What is compiled stays in the disk caches of Triton and its like; nothing that is chosen by timing is kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from loomgen.bench.gpu import DEVICE
from loomgen.bench.implementations import peer_named
from loomgen.bench.inputs import make_gradients, make_inputs
from loomgen.bench.steps import forward_step, training_step
from loomgen.bench.workloads import Case, Layout, Pass, Suite, select

_TUNED_PARTS = {"fla": 3, "attn_gym": 2}
"""Processes that share the configurations of a peer's kernels between them."""

_ONE_BY_ONE = ("flash_qla", "flash_qla_nocp")
"""Peers whose kernels depend on how many sequences there are: each case has a process of its own, for those of FlashQLA
take long to compile, and a process compiles one after the other."""

_WATCH_SECONDS = 0.2
"""How long a process may run on once it is to stop."""

_MOST_TOKENS = 2**15
"""Longer rows of as many sequences side by side run the same kernels, and a training call of one needs gigabytes in
each process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One process: ``part`` of ``parts`` of the configurations of the kernels that a peer runs on ``cases``."""

    what: Pass
    peer: str
    part: int
    parts: int
    cases: tuple[Case, ...]

    def command(self) -> list[str]:
        rows = [f"{case.suite.value}:{case.key}" for case in self.cases]
        words = (self.what.value, self.peer, str(self.part), str(self.parts), *rows)
        return [sys.executable, "-m", "loomgen.bench.warm", *words]

    def __str__(self) -> str:
        keys = ", ".join(case.key for case in self.cases)
        return f"{self.peer}, part {self.part + 1} of {self.parts}: {keys}"


def jobs(peers: Sequence[str], cases: Sequence[Case], what: Pass = Pass.FWD) -> list[Job]:
    """The processes that compile, between them, what ``cases`` need of ``peers``: kernels depend on heads and layout
    above all."""
    groups: dict[tuple[int, int, Layout], list[Case]] = {}
    for case in cases:
        work = case.workload
        groups.setdefault((work.key_heads, work.value_heads, work.layout), []).append(case)
    return [
        Job(what=what, peer=peer, part=part, parts=parts, cases=shared)
        for peer in peers
        if not peer_named(peer).ours
        for parts in (_TUNED_PARTS.get(peer, 1),)
        for group in groups.values()
        for shared in _shares(peer, _short(group))
        for part in range(parts)
    ]


def _short(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Those of few tokens, and the shortest of each batch: FLA has other kernels for each."""
    shortest: dict[int, int] = {}
    for case in cases:
        shortest[_batch(case)] = min(case.workload.n_tokens, shortest.get(_batch(case), case.workload.n_tokens))
    return tuple(case for case in cases if case.workload.n_tokens <= max(_MOST_TOKENS, shortest[_batch(case)]))


def _shares(peer: str, cases: tuple[Case, ...]) -> list[tuple[Case, ...]]:
    return [(case,) for case in cases] if peer in _ONE_BY_ONE else [cases]


def _batch(case: Case) -> int:
    """The first dim of its tensors."""
    return len(case.workload.lengths) if case.workload.layout == "dense" else 1


class Compilations:
    """Processes that run ``wanted``, from construction on, in this order and as many at a time as there are processors;
    none of them outlives the ``with`` that it is used in."""

    def __init__(self, wanted: Sequence[Job], at_once: int | None = None) -> None:
        """What FLA chooses among configurations is timed here under load: it is not kept."""
        self._environ = {**os.environ, "FLA_CACHE_RESULTS": "0"}
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(at_once or os.cpu_count())
        self._jobs = [(job, self._pool.submit(self._run, job)) for job in wanted]

    def __enter__(self) -> Compilations:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)

    def unfinished(self, deadline: float) -> list[str]:
        """Waits until ``deadline`` of the monotonic clock; which have failed or are not done by then."""
        done, _ = wait([code for _, code in self._jobs], max(0.0, deadline - time.monotonic()))
        codes = [(job, code.result() if code in done and not code.cancelled() else None) for job, code in self._jobs]
        return [f"{'not done' if code is None else f'exit code {code}'}: {job}" for job, code in codes if code != 0]

    def _run(self, job: Job) -> int:
        process = subprocess.Popen(job.command(), env=self._environ)
        while not self._stopped.is_set():
            try:
                return process.wait(_WATCH_SECONDS)
            except subprocess.TimeoutExpired:
                continue
        process.kill()
        return process.wait()


def compile_kernels(job: Job) -> None:
    """Makes the calls of ``job`` once, with every ``parts``-th configuration of each tuned kernel."""
    peer = peer_named(job.peer)
    peer.require()
    if job.parts > 1:
        _share_tuning(job.part, job.parts)
    for case in job.cases:
        x = make_inputs(case, DEVICE)
        for final in (False, True):
            if job.what is Pass.FWD:
                forward_step(peer, x, final=final)()
            else:
                training_step(peer, x, make_gradients(case, x), final=final)()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def share(configurations: Sequence[Any], part: int, parts: int) -> list[Any]:
    """Every ``parts``-th from ``part`` on; never none."""
    return list(configurations[part::parts]) or list(configurations[:1])


def _share_tuning(part: int, parts: int) -> None:
    """Makes Triton's autotuner try this process's share, and run each once instead of timing it."""
    tuner = import_module("triton.runtime.autotuner").Autotuner
    all_of = tuner.prune_configs
    tuner.prune_configs = lambda self, arguments: share(list(all_of(self, arguments)), part, parts)
    tuner.do_bench = property(lambda self: _run_once)


def _run_once(call: Callable[[], object], quantiles: Sequence[float]) -> list[float]:
    """In place of timing: any order of the configurations will do."""
    call()
    return [0.0] * len(quantiles)


def parse_job(words: Sequence[str]) -> Job:
    """The job whose command ends in ``words``."""
    parser = argparse.ArgumentParser(prog="loomgen.bench.warm", description="Compile a peer's kernels.")
    parser.add_argument("what", type=Pass)
    parser.add_argument("peer")
    parser.add_argument("part", type=int)
    parser.add_argument("parts", type=int)
    parser.add_argument("rows", nargs="+", help="suite:key")
    options = parser.parse_args(words)
    by_row = {f"{case.suite.value}:{case.key}": case for case in select(tuple(Suite))}
    return Job(
        what=options.what, peer=options.peer, part=options.part, parts=options.parts,
        cases=tuple(by_row[row] for row in options.rows),
    )  # fmt: skip


if __name__ == "__main__":
    compile_kernels(parse_job(sys.argv[1:]))
