"""The oracle: what the emulator computes from the CUDA source equals, bit for bit, what the interpreter computes."""

from __future__ import annotations

import hashlib
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import torch
from torch import Tensor

from loomgen.emit.cuda import emit_body
from loomgen.emit.layout import kernel_source
from loomgen.emulator import EmulatorBuildError, EmulatorFault, EmulatorOptions
from loomgen.emulator.stage import EmulatedStage, emulated_stages
from loomgen.errors import SpecError
from loomgen.fuzz.case import Case
from loomgen.fuzz.inputs import Inputs, Problem, make_problem
from loomgen.interp import interpret
from loomgen.ir import walk
from loomgen.ir.kernel import KernelSpec
from loomgen.passes.pipeline import LoweredKernel, lower
from loomgen.passes.trace import leaves
from loomgen.registry import KernelEntry, SourceEntry
from loomgen.render.entry import kernel_entry
from loomgen.spec import load
from loomgen.target import target_named

INCLUDE = Path(__file__).parent.parent / "include"
ARCH = "sm_90a"
_LATE, _RANDOM = EmulatorOptions(seed=0), EmulatorOptions(seed=1, completion="random")
_SCHEDULE_LIMITS = ("LG094", "LG10", "LG11")
"""Codes of what a valid stage may still ask too much of; any other code says that the generator is wrong."""


class Verdict(Enum):
    AGREES = "agrees"
    REFUSED = "refused"  # valid, and beyond what the compiler takes on: a limit with a code
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a case. ``kind`` says it in a word (the refusal's code, the sort of failure), ``message`` in
    full; ``nodes`` counts the statements and operations that a case which ran consists of.
    """

    verdict: Verdict
    kind: str
    message: str = ""
    nodes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compiled:
    """A case brought to CUDA text."""

    case: Case
    kernel: KernelSpec
    lowered: LoweredKernel
    entry: KernelEntry
    source: str


def check_cases(cases: Sequence[Case], cache: Path) -> list[Outcome]:
    """An outcome for each case; those that compile are built as one library. ``cache`` keeps the emulator."""
    brought = [_compile(case) for case in cases]
    compiled = [item for item in brought if isinstance(item, _Compiled)]
    ran = iter(_run_all(compiled, cache))
    return [next(ran) if isinstance(item, _Compiled) else item for item in brought]


# --------------------------------------------------------------------------- to CUDA


def _compile(case: Case) -> _Compiled | Outcome:
    try:
        kernel = _load(case)
        lowered = lower(kernel, target_named(ARCH))
        source = kernel_source(kernel, emit_body(lowered))
        path = f"{kernel.name}.cu"
        entry = kernel_entry(kernel, lowered, SourceEntry(path=path, sha256=_digest(source)))
    except SpecError as error:
        code = error.diagnostics[0].code
        verdict = Verdict.REFUSED if code.startswith(_SCHEDULE_LIMITS) else Verdict.FAILED
        return Outcome(verdict=verdict, kind=code, message=str(error))
    except Exception as error:  # whatever the compiler dies of is a finding
        return _died("compiler", error)
    return _Compiled(case=case, kernel=kernel, lowered=lowered, entry=entry, source=source)


def _load(case: Case) -> KernelSpec:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz.yaml"
        path.write_text(case.text)
        (kernel,) = load([path], Path(folder))
    return kernel


def _died(where: str, error: Exception) -> Outcome:
    """A failure, told apart from others by the function that raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    kind = f"{where}: {type(error).__name__} in {Path(last.filename).stem}.{last.name}"
    return Outcome(verdict=Verdict.FAILED, kind=kind, message=str(error))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --------------------------------------------------------------------------- to results


def _run_all(compiled: Sequence[_Compiled], cache: Path) -> list[Outcome]:
    stages = _build(compiled, cache)
    if stages is None:
        return [_run_all([item], cache)[0] if len(compiled) > 1 else _not_built(item, cache) for item in compiled]
    return [_run(item, stage) for item, stage in zip(compiled, stages, strict=True)]


def _build(compiled: Sequence[_Compiled], cache: Path) -> Sequence[EmulatedStage] | None:
    """The kernels in one library, or None where g++ refuses one of them."""
    if not compiled:
        return ()
    try:
        return _build_library(compiled, cache)
    except EmulatorBuildError:
        return None


def _build_library(compiled: Sequence[_Compiled], cache: Path) -> Sequence[EmulatedStage]:
    """Symbols tell the cases of a library apart, so each gets its own."""
    with tempfile.TemporaryDirectory() as folder:
        kernels = []
        for n, item in enumerate(compiled):
            symbol = f"{item.entry.symbol}__{n}"
            path = Path(folder) / f"{symbol}.cu"
            path.write_text(item.source.replace(item.entry.symbol, symbol))
            kernels.append((item.entry.model_copy(update={"symbol": symbol}), path))
        return emulated_stages(kernels, INCLUDE, cache, Path(folder))


def _not_built(item: _Compiled, cache: Path) -> Outcome:
    try:
        _build_library([item], cache)
    except EmulatorBuildError as error:
        return Outcome(verdict=Verdict.FAILED, kind="host compiler", message=str(error))
    raise AssertionError("a kernel compiles alone and did not a moment ago")


def _run(item: _Compiled, stage: EmulatedStage) -> Outcome:
    try:
        problem = make_problem(item.case, item.lowered)
        wanted = problem.copy()
        interpret(item.lowered.program, wanted, mode="ordered", orders=item.lowered.orders)
    except Exception as error:  # the interpreter, too, may be what is wrong
        return _died("interpreter", error)
    for options in (_LATE, _RANDOM):
        found = problem.copy()
        try:
            stage.run(found, options)
        except EmulatorFault as fault:
            return Outcome(verdict=Verdict.FAILED, kind=f"fault: {fault.kind.name.lower()}", message=str(fault))
        except ValueError as error:
            return _died("launch", error)
        difference = _difference(problem, wanted, found)
        if difference is not None:
            return Outcome(verdict=Verdict.FAILED, kind="bits", message=f"seed {options.seed}: {difference}")
    return Outcome(verdict=Verdict.AGREES, kind="agrees", nodes=_count_nodes(item.lowered))


def _difference(problem: Problem, wanted: Inputs, found: Inputs) -> str | None:
    """The first element that differs. NaN equals NaN whatever its payload; the signs of zeros count."""
    for name in problem.outputs:
        a, b = wanted[name], found[name]
        if not isinstance(a, Tensor) or not isinstance(b, Tensor):
            continue
        word = torch.int16 if a.element_size() == 2 else torch.int32
        differs = (a.contiguous().view(word) != b.contiguous().view(word)) & ~(a.isnan() & b.isnan())
        if differs.any():
            at = tuple(differs.nonzero()[0].tolist())
            values = f"interpreter {float(a[at])!r}, emulator {float(b[at])!r}"
            return f"{name}{list(at)}: {values}, {int(differs.sum())} in all"
    return None


def _count_nodes(lowered: LoweredKernel) -> Counter[str]:
    """Statements and expression nodes of the Tile IR, operations of the Plan IR, by class."""
    statements = list(walk.statements(lowered.kernel.program.body))
    nodes = [node for stmt in statements for expr in walk.expressions(stmt) for node in walk.nodes(expr)]
    operations = [leaf for op in lowered.plan.body for leaf in leaves(op)]
    return Counter(type(node).__name__ for node in (*statements, *nodes, *operations))
