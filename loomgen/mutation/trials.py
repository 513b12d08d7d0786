"""The small problems that a mutant is run on until one of them finds it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from loomgen.emulator import EmulatorFault, EmulatorOptions
from loomgen.emulator.stage import EmulatedStage
from loomgen.registry.model import KernelEntry
from loomgen.verify.arbitrary import Case, Parameter, make_case
from loomgen.verify.compare import same_bits
from loomgen.verify.problem import Formats, make_problem
from loomgen.verify.stages import ORDER

LENGTHS = ((1,), (64,), (65,), (257,))
"""One token, a full chunk, a tail after it, and enough chunks for every ring to come round more than once."""

FURTHER_LENGTHS = {"gate_sums": ((1,) * 65,)}
"""By stage, what else its loop needs to come round: this one takes 64 chunks at a time."""

HEADS = (1, 2)
"""A group of value heads: loops over it run twice."""

N_SEEDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One launch: its inputs, the bits that the unchanged kernel gives, and the emulator's choices."""

    lengths: tuple[int, ...]
    case: Case
    expected: dict[str, Tensor]
    options: EmulatorOptions

    def __str__(self) -> str:
        lengths = ",".join(map(str, self.lengths))
        return f"lengths {lengths}, {self.options.completion} completion, seed {self.options.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How a mutant was found out: the fault's kind or the tensor whose bits changed, and in which words."""

    by: str
    how: str


def make_trials(stage: EmulatedStage) -> tuple[Trial, ...]:
    """The trials of a kernel, those of the smallest problem first; each problem is run on the unchanged kernel.

    Raises EmulatorFault where that is faulty itself.
    """
    every = (*LENGTHS, *FURTHER_LENGTHS.get(stage.entry.stage, ()))
    return tuple(trial for lengths in every for trial in _trials(stage, lengths))


def first_death(trials: Iterable[Trial], stage: EmulatedStage, disabled_line: int | None = None) -> Death | None:
    """What the first trial that finds a mutant out says; None for a survivor."""
    deaths = (_death(trial, stage, disabled_line) for trial in trials)
    return next((death for death in deaths if death is not None), None)


def _trials(stage: EmulatedStage, lengths: tuple[int, ...]) -> Iterator[Trial]:
    case = _case(stage.entry, lengths)
    expected = case.fresh()
    stage.run({**case.given, **expected})
    for seed in range(N_SEEDS):
        for completion in ("late", "random"):
            options = EmulatorOptions(seed=seed, completion=completion)
            yield Trial(lengths=lengths, case=case, expected=expected, options=options)


def _case(entry: KernelEntry, lengths: tuple[int, ...]) -> Case:
    """Inputs as in the forward pass for its stages, whose numbers mean something; arbitrary ones for others."""
    dims = entry.constraints.dims
    if entry.stage not in ORDER:
        return make_case(map(Parameter.of, entry.arguments), dims, lengths, HEADS, seed=0)
    dtypes = {argument.name: argument.dtype for argument in entry.arguments}
    problem = make_problem(lengths, HEADS, seed=0, formats=Formats.of(entry.name, dims, dtypes))
    return Case(given={**problem.given, **problem.rounded()}, initial=problem.fresh(ORDER[entry.stage]))


def _death(trial: Trial, stage: EmulatedStage, disabled_line: int | None) -> Death | None:
    results = trial.case.fresh()
    options = replace(trial.options, disabled_line=disabled_line)
    try:
        stage.run({**trial.case.given, **results}, options)
    except EmulatorFault as fault:
        return Death(by=fault.kind.name.lower(), how=f"line {fault.line}: {fault.message} ({trial})")
    for name, tensor in sorted(results.items()):
        if not same_bits(tensor, trial.expected[name]):
            return Death(by=f"bits of {name}", how=str(trial))
    return None
