"""The kernels of one device: built when first needed, loaded, ready to be launched."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from loomgen.errors import LoomgenError
from loomgen.registry import KernelEntry, Registry, load
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import Driver, Handle
from loomgen.target import TARGETS, Target


class UnsupportedDevice(LoomgenError):
    """A GPU for which there are no kernels; the message says which there are."""


def target_of(capability: tuple[int, int], device: int) -> Target:
    """The target whose kernels run on a GPU of this compute capability; raises :class:`UnsupportedDevice`.

    Targets are exact: their kernels use instructions that neighbours lack.
    """
    name = "sm_{}{}a".format(*capability)
    for target in TARGETS:
        if target.name == name:
            return target
    supported = ", ".join(target.name for target in TARGETS)
    raise UnsupportedDevice(
        f"cuda:{device} has compute capability {capability[0]}.{capability[1]}, and there are kernels for {supported} "
        "alone; backend='emulate' runs them on CPU tensors"
    )


class DeviceKernels:
    """The kernels that ``device`` runs. Threads may share it; each device has its own, since modules belong to one."""

    def __init__(self, device: int, driver: Driver, store: CubinStore) -> None:
        """Raises :class:`UnsupportedDevice` and RegistryError."""
        self.device = device
        self.driver = driver
        self.store = store
        self.target = target_of(driver.capability(device), device)
        self.registry: Registry = load(self.target.name, store.root)
        self._functions: dict[str, Handle] = {}
        self._lock = threading.Lock()

    def prepare(self, kernels: Sequence[KernelEntry]) -> None:
        """Builds and loads what is not loaded yet, all of it at once.

        Raises StaleRegistry, NoCubin, BuildFailed, DriverError.
        """
        with self._lock:
            missing = [kernel for kernel in kernels if kernel.name not in self._functions]
            cubins = self.store.cubins(missing, self.target) if missing else {}
            for kernel in missing:
                self._functions[kernel.name] = self._load(kernel, cubins[kernel.name])

    def function(self, kernel: KernelEntry) -> Handle:
        """The loaded kernel; builds it first if need be."""
        if kernel.name not in self._functions:
            self.prepare([kernel])
        return self._functions[kernel.name]

    def _load(self, kernel: KernelEntry, cubin: bytes) -> Handle:
        module = self.driver.load(self.device, cubin, kernel.name)
        function = self.driver.function(module, kernel.symbol)
        self.driver.allow_dynamic_shared(function, kernel.launch.dynamic_shared_bytes)
        return function
