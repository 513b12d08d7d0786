"""Running the mutants of the kernels in a registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from loomgen.emulator.stage import EmulatedStage, emulated_stage
from loomgen.mutation.mutants import Kind, Mutant, mutants
from loomgen.mutation.trials import Trial, first_death, make_trials
from loomgen.registry.model import KernelEntry

WORKERS = 2
"""Mutants at a time: one is compiled while another runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantRow:
    """One mutant.

    ``killed_by``: the kind of the emulator's fault or the tensor whose bits changed, None for a survivor; ``how``: the
    fault's message and the launch that found it.
    """

    kernel: str
    kind: str
    line: int
    text: str
    replacement: str
    killed_by: str | None
    how: str


def mutate(
    entries: Sequence[KernelEntry],
    root: Path,
    *,
    kinds: Collection[Kind] = tuple(Kind),
    on_mutant: Callable[[int, int], None] = lambda done, total: None,
) -> list[MutantRow]:
    """A row for each mutant of the kernels' committed sources; ``on_mutant(done, total)`` is told of the progress.

    Raises EmulatorFault where an unchanged kernel is faulty and MissingTool where g++ is missing.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        originals = list(pool.map(lambda entry: emulated_stage(entry, root), entries))
        subjects = [
            _Subject(original=original, trials=trials, root=root)
            for original, trials in zip(originals, pool.map(make_trials, originals), strict=True)
        ]
        work = [(subject, mutant) for subject in subjects for mutant in subject.mutants(kinds)]
        rows: list[MutantRow] = []
        for row in pool.map(lambda item: item[0].row(item[1]), work):
            rows.append(row)
            on_mutant(len(rows), len(work))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """A kernel under mutation."""

    original: EmulatedStage
    trials: tuple[Trial, ...]
    root: Path

    def mutants(self, kinds: Collection[Kind]) -> list[Mutant]:
        return [mutant for mutant in mutants(self.original.kernel.source) if mutant.kind in kinds]

    def row(self, mutant: Mutant) -> MutantRow:
        if mutant.kind is Kind.DELETED:
            death = first_death(self.trials, self.original, disabled_line=mutant.line)
        else:
            death = first_death(self.trials, self._compiled(mutant))
        return MutantRow(
            kernel=self.original.entry.name,
            kind=mutant.kind.value,
            line=mutant.line,
            text=mutant.text.strip(),
            replacement=mutant.replacement.strip(),
            killed_by=None if death is None else death.by,
            how="" if death is None else death.how,
        )

    def _compiled(self, mutant: Mutant) -> EmulatedStage:
        entry = self.original.entry
        with TemporaryDirectory() as scratch:
            path = Path(scratch) / f"{entry.name}.cu"
            path.write_text(mutant.applied_to(self.original.kernel.source))
            return emulated_stage(entry, self.root, source=path)
