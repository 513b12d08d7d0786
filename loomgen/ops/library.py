"""The kernels that operators run: those of the registry beside this package, compiled when first needed."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

import torch

from loomgen.emulator.kernel import EmulatorOptions
from loomgen.emulator.stage import EmulatedStage, committed_stages
from loomgen.registry import Registry, load, registry_path
from loomgen.registry.model import KernelEntry
from loomgen.root import BUNDLE, kernel_root
from loomgen.runtime.bind import Value
from loomgen.runtime.cache import default_cache_folder
from loomgen.target import TARGETS

OPERATOR_ARCH = "sm_100a"
"""The target whose kernels the emulator runs where the caller names none; every target has the stages of the operators,
and all of them write tensors of the same shapes."""

EMULATE = "emulate"
_CUDA = "cuda"
BACKENDS = (_CUDA, EMULATE, *(f"{EMULATE}:{target.name}" for target in TARGETS))

_DEFAULTS = EmulatorOptions()


class Library(Protocol):
    """Kernels that can be launched."""

    @property
    def registry(self) -> Registry: ...

    def prepare(self, kernels: Sequence[KernelEntry]) -> None:
        """Compiles what is not compiled yet, so that no launch of ``kernels`` has to."""

    def launch(self, kernel: KernelEntry, given: Mapping[str, Value]) -> None:
        """Runs ``kernel`` on tensors, tables and scalars by name; writes its outputs in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedLibrary:
    """The kernels of a registry in the emulator, for CPU tensors. Compiled kernels are kept, on disk in ``cache``, by
    default below ``root``; threads may share it."""

    registry: Registry
    root: Path
    cache: Path | None = None
    options: EmulatorOptions = _DEFAULTS
    _stages: dict[str, EmulatedStage] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def prepare(self, kernels: Sequence[KernelEntry]) -> None:
        """Raises EmulatorBuildError."""
        with self._lock:
            missing = [kernel for kernel in kernels if kernel.name not in self._stages]
            for stage in committed_stages([[kernel] for kernel in missing], self.root, cache=self.cache):
                self._stages[stage.entry.name] = stage

    def launch(self, kernel: KernelEntry, given: Mapping[str, Value]) -> None:
        """Raises EmulatorFault for what the kernel does wrong."""
        self._stages[kernel.name].run(given, self.options)


def check_backend(backend: str | None, device: torch.device) -> None:
    """One of :data:`BACKENDS` for tensors on ``device``, or None, which chooses by it; raises ValueError."""
    if backend is not None and backend not in BACKENDS:
        raise ValueError(f"backend: {backend!r}, expected None or one of {', '.join(BACKENDS)}")
    wanted = _CUDA if runs_on_gpu(backend, device) else "cpu"
    if device.type != wanted:
        raise ValueError(f"q: on {device}, expected {wanted} with backend {backend or EMULATE}")


def runs_on_gpu(backend: str | None, device: torch.device) -> bool:
    return backend == _CUDA or (backend is None and device.type == _CUDA)


def library_of(backend: str | None) -> Library:
    """The library of a backend that has been checked and does not run on a GPU."""
    _, _, arch = (backend or EMULATE).partition(":")
    return emulated_library(arch or default_arch())


@cache
def default_arch() -> str:
    """:data:`OPERATOR_ARCH`, or where a bundle lacks it the first target that there is a registry of."""
    root = kernel_root()
    present = [target.name for target in TARGETS if (root / registry_path(target.name)).is_file()]
    return OPERATOR_ARCH if OPERATOR_ARCH in present or not present else present[0]


@cache
def registry_of(arch: str) -> Registry:
    """The registry of ``arch`` that this package runs, read once a process; raises RegistryError."""
    return load(arch)


def any_registry() -> Registry:
    """A registry to take the sizes of tensors from, which are those of every target; raises RegistryError."""
    return registry_of(default_arch())


@cache
def emulated_library(arch: str = OPERATOR_ARCH) -> EmulatedLibrary:
    """The library of ``arch`` that a process shares. A bundle may lie where nobody may write: what is compiled of it
    goes to the user's cache."""
    root = kernel_root()
    cache = default_cache_folder() / "emulator" if root == BUNDLE else None
    return EmulatedLibrary(registry=registry_of(arch), root=root, cache=cache)
