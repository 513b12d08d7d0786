"""A library that launches nothing and remembers what it was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from loomgen.ops.library import OPERATOR_ARCH, registry_of
from loomgen.registry import Registry
from loomgen.registry.model import KernelEntry
from loomgen.runtime.bind import Value, bind


@dataclass
class Recorder:
    registry: Registry = field(default_factory=lambda: registry_of(OPERATOR_ARCH))
    prepared: list[str] = field(default_factory=list)
    launched: list[tuple[KernelEntry, dict[str, Value]]] = field(default_factory=list)

    def prepare(self, kernels: Sequence[KernelEntry]) -> None:
        self.prepared += [kernel.name for kernel in kernels]

    def launch(self, kernel: KernelEntry, given: Mapping[str, Value]) -> None:
        self.launched.append((kernel, {argument.name: value for argument, value in bind(kernel, given).values}))

    def tensor(self, stage: str, name: str) -> Tensor:
        """What the kernel of ``stage`` was given for the argument ``name``."""
        value = next(values for kernel, values in self.launched if kernel.stage == stage)[name]
        assert isinstance(value, Tensor)
        return value
