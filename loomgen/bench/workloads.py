"""What is measured: shapes, gates, and what a pass over them costs at least."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

HEAD_DIM = 128
CHUNK = 64

Layout = Literal["dense", "packed"]
Gate = Literal["logsigmoid16", "mamba", "none"]
Twist = Literal["correlated keys", "negative eigenvalues"]
"""What makes inputs hard: the keys of a head share a direction; steps reach 2."""

_PRODUCT_FLOPS = 2 * CHUNK * CHUNK * HEAD_DIM


class Suite(str, Enum):
    """``perf``: training shapes, timed and compared; ``gates``: some of them with gates as models have them;
    ``accuracy``: errors and repeats alone, with states; ``hard``: the same on inputs that magnify errors."""

    PERF = "perf"
    GATES = "gates"
    ACCURACY = "accuracy"
    HARD = "hard"


class Pass(str, Enum):
    """What of a function is run: ``fwd`` its forward, ``fwdbwd`` a training call, the forward and its backward."""

    FWD = "fwd"
    FWDBWD = "fwdbwd"


_PRODUCTS = {Pass.FWD: 10, Pass.FWDBWD: 35}
"""Matrix products of a chunk and value head in the chunk form: 64 x 64 x 128 each, or as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Sequences, heads and layout of a call; head dim 128.

    ``dense`` is [B, T, heads, dim] without ``cu_seqlens`` and wants equal lengths; ``packed`` is [1, sum of lengths,
    heads, dim] with it.
    """

    label: str
    lengths: tuple[int, ...]
    key_heads: int
    value_heads: int
    layout: Layout

    @property
    def key(self) -> str:
        return f"{self.label}|{self.key_heads}/{self.value_heads}|{self.layout}"

    @property
    def content(self) -> str:
        """Names the values of its inputs: layouts that differ in nothing else are given the same ones."""
        return f"{self.label}|{self.key_heads}/{self.value_heads}"

    @property
    def n_tokens(self) -> int:
        return sum(self.lengths)

    def io_bytes(self, what: Pass = Pass.FWD) -> int:
        """The least that a pass moves. The forward reads q, k, v, g and beta once and writes o once; the backward reads
        them and the gradient of o once, and writes theirs once."""
        values = 2 * self.value_heads * HEAD_DIM
        inputs = 2 * 2 * self.key_heads * HEAD_DIM + values + 2 * 4 * self.value_heads
        backward = 0 if what is Pass.FWD else 2 * inputs + values
        return self.n_tokens * (inputs + values + backward)

    def flops(self, what: Pass = Pass.FWD) -> int:
        """Floating-point operations of a pass's matrix products in the chunk form, short chunks counted whole; nothing
        is computed twice."""
        n_chunks = sum(-(-length // CHUNK) for length in self.lengths)
        return n_chunks * self.value_heads * _PRODUCTS[what] * _PRODUCT_FLOPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A row of a suite. ``timed``: times are wanted, not only results; ``with_state``: an initial state is given, and
    in a training call the gradient of the final one."""

    suite: Suite
    workload: Workload
    gate: Gate = "logsigmoid16"
    twist: Twist | None = None
    with_state: bool = False
    timed: bool = True

    @property
    def key(self) -> str:
        if self.suite is Suite.PERF:
            return self.workload.key
        twist = "" if self.twist is None else f"|{self.twist}"
        return f"{self.workload.key}|{self.gate}{twist}"


def ragged(total: int, count: int, *, seed: int, spread: float = 0.12) -> tuple[int, ...]:
    """``count`` unequal lengths that sum to ``total``, each but the last within ``spread`` of the mean."""
    chosen = random.Random(seed)
    mean = total / count
    lengths = [int(mean * (1 + chosen.uniform(-spread, spread))) for _ in range(count - 1)]
    return (*lengths, total - sum(lengths))


def cases_of(suite: Suite) -> tuple[Case, ...]:
    """The rows of a suite, in the order in which they are measured."""
    match suite:
        case Suite.PERF:
            return tuple(Case(suite=suite, workload=workload) for workload in _training_shapes())
        case Suite.GATES:
            kept = [workload for workload in _training_shapes() if workload.key in _WITH_REALISTIC_GATES]
            return tuple(Case(suite=suite, workload=workload, gate="mamba") for workload in kept)
        case Suite.ACCURACY:
            return tuple(_accuracy_cases())
        case Suite.HARD:
            return tuple(_hard_cases())


def select(suites: Sequence[Suite], filters: Sequence[str] = ()) -> tuple[Case, ...]:
    """The rows of ``suites`` whose keys contain one of ``filters``, those of the first filter first; without filters
    all of them."""
    rows = [case for suite in suites for case in cases_of(suite)]
    if not filters:
        return tuple(rows)
    return tuple(dict.fromkeys(case for text in filters for case in rows if text in case.key))


_WITH_REALISTIC_GATES = (
    "4x4096|8/16|packed",
    "1x16384|8/16|packed",
    "ragged7=30086|16/32|packed",
    "1x4096|4/12|packed",
    "1x65536|4/8|packed",
)


def _training_shapes() -> Iterator[Workload]:
    heads = ((8, 16), (16, 32))
    for count, length in ((4, 4096), (8, 4096), (16, 4096), (1, 16384), (32, 512), (128, 128)):
        for key_heads, value_heads in heads:
            yield from _equal(count, length, key_heads, value_heads)
    for total, count in ((12894, 3), (30086, 7), (64197, 15)):
        for key_heads, value_heads in heads:
            lengths = ragged(total, count, seed=count)
            yield _packed(f"ragged{count}={total}", lengths, key_heads, value_heads)
    for length, key_heads, value_heads in ((4096, 4, 12), (65536, 4, 8), (131072, 4, 8)):
        yield _packed(f"1x{length}", (length,), key_heads, value_heads)


def _equal(count: int, length: int, key_heads: int, value_heads: int) -> Iterator[Workload]:
    """Equal lengths in both layouts; a single sequence packed alone."""
    label, lengths = f"{count}x{length}", (length,) * count
    if count > 1:
        yield Workload(label=label, lengths=lengths, key_heads=key_heads, value_heads=value_heads, layout="dense")
    yield _packed(label, lengths, key_heads, value_heads)


def _packed(label: str, lengths: tuple[int, ...], key_heads: int, value_heads: int) -> Workload:
    return Workload(label=label, lengths=lengths, key_heads=key_heads, value_heads=value_heads, layout="packed")


def _ragged_pack() -> Workload:
    return _packed("acc-ragged4=512", (200, 64, 137, 111), 8, 16)


def _hard_cases() -> Iterator[Case]:
    """No decay; keys that are much alike; steps up to 2, which make eigenvalues of a step negative."""
    variations: tuple[tuple[Gate, Twist | None], ...] = (
        ("none", None),
        ("logsigmoid16", "correlated keys"),
        ("logsigmoid16", "negative eigenvalues"),
    )
    for gate, twist in variations:
        yield Case(suite=Suite.HARD, workload=_ragged_pack(), gate=gate, twist=twist, with_state=True, timed=False)


def _accuracy_cases() -> Iterator[Case]:
    shapes = ((_ragged_pack(), True), (_packed("acc-1x8192", (8192,), 4, 8), False))
    gates: tuple[Gate, ...] = ("logsigmoid16", "mamba")
    for workload, with_state in shapes:
        for gate in gates:
            yield Case(suite=Suite.ACCURACY, workload=workload, gate=gate, with_state=with_state, timed=False)
