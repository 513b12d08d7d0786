"""Whether the operator and its backward give the same bits each time, whatever runs beside them or lies in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Literal, get_args

import torch
from torch import Tensor

from loomgen.verify.fingerprint import digest, fingerprints
from loomgen.verify.machines import Call, Machine, Results, make_call
from loomgen.verify.op_cases import OpCase
from loomgen.verify.op_gradients import OutputGradients

Check = Literal["repeats", "spoiled", "streams", "alone"]
CHECKS: tuple[Check, ...] = get_args(Check)
"""Calls again; again with NaN in all free memory; on two streams at once, the other one with other contents; each
sequence by itself."""

OF_THE_PACK = ("dA_log", "ddt_bias")
"""Sums over all tokens of a call: a sequence by itself has a part of them."""

OF_SEQUENCES = ("final_state", "dh0")

SHAPES = (
    OpCase(name="ragged", lengths=(0, 15, 64, 65, 200, 1, 127), heads=(2, 4)),
    OpCase(name="long tail", lengths=(1, 4000, 3, 64, 65, 0, 127), heads=(2, 4)),
    OpCase(name="4 x 4096", lengths=(4096,) * 4, heads=(16, 32)),
    OpCase(name="1 x 16384", lengths=(16384,), heads=(8, 16)),
    OpCase(name="32 x 512", lengths=(512,) * 32, heads=(8, 16)),
    OpCase(name="one-token documents", lengths=(1,) * 300, heads=(4, 4)),
    OpCase(name="3 documents, 3 value heads a key head", lengths=(4096, 77, 1000), heads=(4, 12)),
    OpCase(name="batch, head dim 64", lengths=(1024, 1024), heads=(16, 16), head_dim=64, packed=False),
    OpCase(name="head dim 64, f16, bf16 beta, V first", lengths=(2000, 0, 999), heads=(4, 4), head_dim=64,
           dtype=torch.float16, step=torch.bfloat16, state_v_first=True),
    OpCase(name="g down to -316, norm off", lengths=(700, 1300), heads=(2, 16), gates="strong", normalise=False),
    OpCase(name="g = None, no initial state", lengths=(65, 640), heads=(4, 8), gates="none", initial_state=False),
    OpCase(name="raw gates and steps, slack", lengths=(513, 3, 1000), heads=(4, 8), raw_gates=torch.bfloat16,
           raw_steps=torch.bfloat16, negative=True, slack=70),
)  # fmt: skip
"""What a GPU repeats: every variant of the state scan, both head dims and dtypes, each kind of gates and steps."""

_SMALL_SEQUENCES, _SMALL_LENGTH = 3, 70


def in_small(case: OpCase) -> OpCase:
    """``case`` with a few short sequences and one key head, for the emulator."""
    lengths = tuple(min(length, _SMALL_LENGTH) for length in case.lengths[:_SMALL_SEQUENCES])
    key_heads, value_heads = case.heads
    return replace(case, lengths=lengths, heads=(1, min(value_heads // key_heads, 3)), slack=min(case.slack, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeterminismRow:
    """One check of one case: ``runs`` calls, of which ``different`` had other bits, in ``tensors``.

    ``digest`` is of all results and gradients of the first call; ``finite``: they are all numbers.
    """

    case: str
    lengths: str
    heads: str
    check: Check
    runs: int
    different: int
    tensors: tuple[str, ...]
    digest: str
    finite: bool
    ok: bool


def verify_determinism(
    machine: Machine,
    cases: Iterable[OpCase] = SHAPES,
    *,
    repeats: int,
    on_check: Callable[[str, str], None] = lambda case, check: None,
) -> list[DeterminismRow]:
    """A row a case and check; ``on_check`` is told of each that has run. Raises EmulatorFault."""
    return [row for case in cases for row in _Checked.of(machine, case).rows(repeats, on_check)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """A case's call, its first results and their fingerprints, with which all others are compared."""

    machine: Machine
    call: Call
    first: Results
    prints: Tensor

    @classmethod
    def of(cls, machine: Machine, case: OpCase, seed: int = 0) -> _Checked:
        call = machine.place(make_call(case, seed))
        first = machine.run(call, 0)
        return cls(machine=machine, call=call, first=first, prints=fingerprints(first.values()))

    def rows(self, repeats: int, on_check: Callable[[str, str], None]) -> Iterator[DeterminismRow]:
        case = self.call.case
        checks: Mapping[Check, Callable[[], list[set[str]]]] = {
            "repeats": partial(self._repeats, repeats),
            "spoiled": partial(self._spoiled, repeats),
            "streams": partial(self._streams, repeats),
            "alone": self._alone,
        }
        whole = digest(self.prints)
        is_finite = all(bool(x.isfinite().all()) for x in self.first.values())
        for check, run in checks.items():
            runs = run()
            on_check(case.name, check)
            tensors = set[str]().union(*runs)
            yield DeterminismRow(
                case=case.name,
                lengths=_shortened(case.lengths),
                heads="/".join(map(str, case.heads)),
                check=check,
                runs=len(runs),
                different=sum(map(bool, runs)),
                tensors=tuple(name for name in self.first if name in tensors),
                digest=whole,
                finite=is_finite,
                ok=is_finite and not tensors,
            )

    def _repeats(self, repeats: int) -> list[set[str]]:
        """What differed in each call."""
        return self._different(self._prints(repeats))

    def _spoiled(self, repeats: int) -> list[set[str]]:
        found: list[Tensor] = []
        for repeat in range(1, repeats + 1):
            self.machine.spoil()
            found.append(fingerprints(self.machine.run(self.call, repeat).values()))
        return self._different(torch.stack(found))

    def _streams(self, repeats: int) -> list[set[str]]:
        others = _Checked.of(self.machine, self.call.case, seed=1)
        jobs = [partial(each._prints, repeats) for each in (self, others)]
        ours, theirs = self.machine.at_once(jobs)
        return self._different(ours) + others._different(theirs)

    def _alone(self) -> list[set[str]]:
        """Each sequence by itself against its part of the pack."""
        runs: list[set[str]] = []
        for n in range(len(self.call.case.lengths)):
            found = self.machine.run(alone(self.call, n), 0)
            kept = [name for name in found if name not in OF_THE_PACK]
            wanted = part_of(self.first, self.call.case, n)
            ours, theirs = (fingerprints(x[name] for name in kept) for x in (found, wanted))
            runs.append({name for name, is_same in zip(kept, (ours == theirs).tolist(), strict=True) if not is_same})
        return runs

    def _prints(self, repeats: int) -> Tensor:
        """i64 [repeats, tensors]."""
        every = range(1, repeats + 1)
        return torch.stack([fingerprints(self.machine.run(self.call, repeat).values()) for repeat in every])

    def _different(self, found: Tensor) -> list[set[str]]:
        differs = (found != self.prints).tolist()
        return [{name for name, is_other in zip(self.first, row, strict=True) if is_other} for row in differs]


def alone(call: Call, n: int) -> Call:
    """Sequence ``n`` of ``call`` by itself, as a batch of one row."""
    case, inputs = call.case, call.inputs
    tokens = {
        name: sequence(x, case, n) for name in ("q", "k", "v", "g", "beta") if (x := getattr(inputs, name)) is not None
    }
    state = inputs.initial_state
    return Call(
        case=replace(case, lengths=(case.lengths[n],), packed=False, slack=0),
        inputs=replace(inputs, **tokens, initial_state=None if state is None else state[n : n + 1], cu_seqlens=None),
        given=OutputGradients(do=sequence(call.given.do, case, n), dht=call.given.dht[n : n + 1]),
    )


def part_of(results: Results, case: OpCase, n: int) -> dict[str, Tensor]:
    """What belongs to sequence ``n`` of the pack."""
    parts = {name: x for name, x in results.items() if name not in OF_THE_PACK}
    return {name: x[n : n + 1] if name in OF_SEQUENCES else sequence(x, case, n) for name, x in parts.items()}


def sequence(x: Tensor, case: OpCase, n: int) -> Tensor:
    """The tokens of sequence ``n`` of ``x`` [B, T, ..]: [1, its length, ..]."""
    if not case.packed:
        return x[n : n + 1]
    begin, end = list(pairwise((0, *accumulate(case.lengths))))[n]
    return x[:, begin:end]


def _shortened(lengths: tuple[int, ...]) -> str:
    if len(lengths) > 1 and len(set(lengths)) == 1:
        return f"{len(lengths)} x {lengths[0]}"
    return ",".join(map(str, lengths))
