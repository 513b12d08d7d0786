"""Cubins without a compiler, for a driver that does not read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from loomgen.registry import KernelEntry
from loomgen.runtime.cubins import CubinStore
from loomgen.target import Target


@dataclass(frozen=True, kw_only=True)
class NamesAsCubins(CubinStore):
    """Every kernel's cubin is its name; ``asked`` tells what was asked for together."""

    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def cubins(self, kernels: Sequence[KernelEntry], target: Target) -> dict[str, bytes]:
        self.asked.append((target.name, tuple(kernel.name for kernel in kernels)))
        return {kernel.name: kernel.name.encode() for kernel in kernels}
