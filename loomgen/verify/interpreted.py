"""The operator's kernels as the interpreter runs them: their meaning, in one of its modes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loomgen.interp import Mode
from loomgen.ir.kernel import KernelSpec
from loomgen.ops.library import any_registry
from loomgen.passes.pipeline import LoweredKernel, lower
from loomgen.registry import Registry
from loomgen.registry.model import KernelEntry
from loomgen.runtime.bind import Value
from loomgen.target import target_named
from loomgen.verify.backends import interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretedLibrary:
    """A library of :mod:`loomgen.ops` for CPU tensors: ``kernels`` are those of the specs, by name."""

    kernels: Mapping[str, KernelSpec]
    mode: Mode
    registry: Registry = field(default_factory=any_registry)
    _lowered: dict[str, LoweredKernel] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, kernels: Sequence[KernelSpec], mode: Mode) -> InterpretedLibrary:
        return cls(kernels={str(kernel.name): kernel for kernel in kernels}, mode=mode)

    def prepare(self, kernels: Sequence[KernelEntry]) -> None:
        target = target_named(self.registry.arch)
        for name in {kernel.name for kernel in kernels} - self._lowered.keys():
            self._lowered[name] = lower(self.kernels[name], target)

    def launch(self, kernel: KernelEntry, given: Mapping[str, Value]) -> None:
        lowered = self._lowered[kernel.name]
        absent = dict.fromkeys(tensor.name for tensor in lowered.program.tensors)
        interpreter([lowered], self.mode)(kernel.name, {**absent, **given}, seed=0)
