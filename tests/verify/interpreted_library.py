"""The operator's kernels as the interpreter runs them: each operation of a stage's meaning, in one of its modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loomgen.cli.project import Project
from loomgen.interp import Mode
from loomgen.ops.library import registry_of
from loomgen.passes.pipeline import LoweredKernel, lower
from loomgen.registry import Registry
from loomgen.registry.model import KernelEntry
from loomgen.runtime.bind import Value
from loomgen.target import target_named
from loomgen.verify import interpreter
from tests.verify.committed import ARCH, ROOT

_KERNELS = {str(kernel.name): kernel for kernel in Project(ROOT).kernels()}


@dataclass
class InterpretedLibrary:
    """A library of :mod:`loomgen.ops` on CPU tensors."""

    mode: Mode
    registry: Registry = field(default_factory=lambda: registry_of(ARCH))
    lowered: dict[str, LoweredKernel] = field(default_factory=dict)

    def prepare(self, kernels: Sequence[KernelEntry]) -> None:
        for kernel in kernels:
            if kernel.name not in self.lowered:
                self.lowered[kernel.name] = lower(_KERNELS[kernel.name], target_named(ARCH))

    def launch(self, kernel: KernelEntry, given: Mapping[str, Value]) -> None:
        lowered = self.lowered[kernel.name]
        absent = dict.fromkeys(tensor.name for tensor in lowered.program.tensors)
        interpreter([lowered], self.mode)(kernel.name, {**absent, **given}, seed=0)
