"""The few calls of the CUDA driver that the runtime makes, and their home: torch's primary contexts."""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Protocol

from loomgen.errors import LoomgenError
from loomgen.target.tensor_map import MAP_BYTES, MatrixBox, tiled_arguments

Handle = Any
"""What a driver calls a module or a function; opaque."""


class DriverError(LoomgenError):
    """The CUDA driver refused a call; the message names it and what the driver said."""


class Driver(Protocol):
    """A CUDA driver. Devices are torch's numbers; streams are raw handles, 0 the default stream."""

    def capability(self, device: int) -> tuple[int, int]:
        """The compute capability, major and minor."""

    def load(self, device: int, cubin: bytes, name: str) -> Handle:
        """A module of ``cubin`` on ``device``; ``name`` says in errors what it is."""

    def function(self, module: Handle, symbol: str) -> Handle:
        """The kernel ``symbol`` of a module."""

    def allow_dynamic_shared(self, function: Handle, n_bytes: int) -> None:
        """Lets launches of ``function`` ask for up to ``n_bytes`` of dynamic shared memory."""

    def launch(
        self,
        function: Handle,
        *,
        blocks: int,
        threads: int,
        shared_bytes: int,
        parameters: int,
        stream: int,
        device: int,
    ) -> None:
        """Enqueues a one-dimensional grid; ``parameters`` is the address of an array of the parameters' addresses.

        They have been read when this returns.
        """

    def encode(self, box: MatrixBox) -> bytes:
        """The tensor map of a matrix's boxes."""

    def current_stream(self, device: int) -> int:
        """torch's current stream of ``device``."""

    def capturing(self, device: int, stream: int) -> bool:
        """Whether launches on ``stream``, a current stream, are being recorded into a graph."""

    def on(self, device: int) -> AbstractContextManager[object]:
        """Makes ``device`` current inside the context; may be entered again and again, by one thread at a time."""


class CudaDriver:
    """The driver through ``cuda.bindings``; one object may serve all devices and threads."""

    def __init__(self) -> None:
        """Raises :class:`DriverError` where there is no CUDA driver or no ``cuda.bindings``."""
        import torch

        try:
            self._cuda = import_module("cuda.bindings.driver")
            self._call("cuInit", "", 0)
        except ImportError as error:
            raise DriverError(f"cuda.bindings cannot be imported ({error}): pip install 'loomgen[cuda]'") from error
        except RuntimeError as error:
            raise DriverError(f"no CUDA driver: {error}") from error
        if not torch.cuda.is_available():
            raise DriverError(f"torch {torch.__version__} sees no GPU: install a build of torch for CUDA")
        torch.cuda.current_device()  # initialises torch's side
        self._torch_device = torch.cuda.device
        self._current_stream = torch._C._cuda_getCurrentRawStream
        self._is_capturing = torch._C._cuda_isCurrentStreamCapturing
        self._contexts: dict[int, Handle] = {}
        self._success = self._cuda.CUresult.CUDA_SUCCESS
        self._no_context = self._cuda.CUresult.CUDA_ERROR_INVALID_CONTEXT
        self._launch = self._cuda.cuLaunchKernel

    def capability(self, device: int) -> tuple[int, int]:
        import torch

        return torch.cuda.get_device_capability(device)

    def load(self, device: int, cubin: bytes, name: str) -> Handle:
        with self.on(device):
            self._make_current(device)
            return self._call("cuModuleLoadData", name, cubin)

    def function(self, module: Handle, symbol: str) -> Handle:
        return self._call("cuModuleGetFunction", symbol, module, symbol.encode())

    def allow_dynamic_shared(self, function: Handle, n_bytes: int) -> None:
        attribute = self._cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", f"{n_bytes} bytes of shared memory", function, attribute, n_bytes)

    def launch(
        self,
        function: Handle,
        *,
        blocks: int,
        threads: int,
        shared_bytes: int,
        parameters: int,
        stream: int,
        device: int,
    ) -> None:
        arguments = (function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, parameters, 0)
        (status,) = self._launch(*arguments)
        if status == self._no_context:
            # torch binds a context to a thread at its first CUDA call there; nothing says that one came before us
            self._make_current(device)
            (status,) = self._launch(*arguments)
        if status != self._success:
            raise self._error("cuLaunchKernel", f"{blocks} blocks of {threads} threads", status)

    def encode(self, box: MatrixBox) -> bytes:
        encoded = self._call("cuTensorMapEncodeTiled", str(box), *tiled_arguments(self._cuda, box))
        return ctypes.string_at(encoded.getPtr(), MAP_BYTES)

    def current_stream(self, device: int) -> int:
        stream: int = self._current_stream(device)
        return stream

    def capturing(self, device: int, stream: int) -> bool:
        recording: bool = self._is_capturing()
        return recording

    def on(self, device: int) -> AbstractContextManager[object]:
        return self._torch_device(device)

    def _make_current(self, device: int) -> None:
        """Binds the primary context of ``device``, which torch uses as well, to this thread."""
        context = self._contexts.get(device)
        if context is None:
            context = self._call("cuDevicePrimaryCtxRetain", f"device {device}", self._ordinal(device))
            self._contexts[device] = context
        self._call("cuCtxSetCurrent", f"device {device}", context)

    def _ordinal(self, device: int) -> Handle:
        return self._call("cuDeviceGet", f"device {device}", device)

    def _call(self, call: str, what: str, *arguments: Any) -> Any:
        """The result of a call, if it has one; raises :class:`DriverError`."""
        status, *results = getattr(self._cuda, call)(*arguments)
        if status != self._cuda.CUresult.CUDA_SUCCESS:
            raise self._error(call, what, status)
        return results[0] if results else None

    def _error(self, call: str, what: str, status: Any) -> DriverError:
        found, text = self._cuda.cuGetErrorString(status)
        known = found == self._cuda.CUresult.CUDA_SUCCESS
        said = f" ({text.decode()})" if known and text else ""
        return DriverError(f"{call}{f' of {what}' if what else ''}: {status.name}{said}")
