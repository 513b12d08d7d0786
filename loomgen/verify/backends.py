"""What runs a stage: the interpreter of its meaning, or the emulator of its committed source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, get_args

from loomgen.emulator import EmulatorOptions
from loomgen.emulator.stage import COMPILATIONS, committed_stages
from loomgen.errors import LoomgenError
from loomgen.interp import Mode, interpret
from loomgen.ir.kernel import KernelSpec
from loomgen.passes.pipeline import LoweredKernel
from loomgen.registry import Registry, load
from loomgen.registry.model import KernelEntry
from loomgen.registry.tables import WINDOW_TABLES
from loomgen.verify.problem import Inputs

Backend = Literal["interp", "emulate"]
BACKENDS: tuple[Backend, ...] = get_args(Backend)


class StageRunner(Protocol):
    """Runs a kernel on tensors, tables and scalars by name; out tensors are written in place."""

    def __call__(self, kernel: str, given: Inputs, seed: int) -> None: ...


def interpreter(lowered: Sequence[LoweredKernel], mode: Mode) -> StageRunner:
    """The meaning of the kernels after their Tile IR passes; ``ordered`` sums in the plan's order."""
    by_name = {str(kernel.kernel.name): kernel for kernel in lowered}

    def run(kernel: str, given: Inputs, seed: int) -> None:
        found = by_name[kernel]
        names = {a.name if a.box is None else a.box.tensor for a in found.arguments}
        names |= {*WINDOW_TABLES, *found.program.runtime_dims}
        arguments = {name: value for name, value in given.items() if name in names}
        interpret(found.program, arguments, mode=mode, orders=found.orders)

    return run


def emulator(kernels: Sequence[KernelSpec], arch: str, root: Path) -> StageRunner:
    """The committed sources of the kernels, from the registries under ``root``, compiled for the host: ``arch``'s, or,
    of a kernel that is for other targets alone, the first of those.

    The seed decides the order of blocks and threads; copies complete at random where it is odd, else as late as
    allowed. Raises LoomgenError where the registry does not speak of the specs as they are, EmulatorBuildError.
    """
    registries = {name: load(name, root) for name in {target_of(kernel, arch) for kernel in kernels}}
    entries = [_entry(registries[target_of(kernel, arch)], kernel) for kernel in kernels]
    libraries = [entries[n::COMPILATIONS] for n in range(min(COMPILATIONS, len(entries)))]
    by_name = {stage.entry.name: stage for stage in committed_stages(libraries, root)}

    def run(kernel: str, given: Inputs, seed: int) -> None:
        by_name[kernel].run(given, EmulatorOptions(seed=seed, completion="random" if seed % 2 else "late"))

    return run


def target_of(kernel: KernelSpec, arch: str) -> str:
    """``arch``, or the first target of a kernel that is for others alone."""
    return arch if arch in kernel.targets else kernel.targets[0]


def _entry(registry: Registry, kernel: KernelSpec) -> KernelEntry:
    entry = next((entry for entry in registry.kernels if entry.name == str(kernel.name)), None)
    if entry is None or entry.spec.digest != kernel.spec_digest:
        what = "is missing from" if entry is None else "has another spec in"
        raise LoomgenError(f"{kernel.name} {what} the registry of {registry.arch}: run `loomgen render`")
    return entry
