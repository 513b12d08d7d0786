"""A driver without a GPU that carries launches out: the emulator runs them on the memory that parameters name.

Nothing but those bytes tells it where a tensor lies and at what strides, so a wrong address or stride shows in results.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from loomgen.ops.library import OPERATOR_ARCH, EmulatedLibrary, emulated_library
from loomgen.registry import ArgumentEntry, KernelEntry, StrideSource
from loomgen.runtime.bind import Value
from loomgen.runtime.dtypes import TORCH_DTYPES
from tests.runtime.fake_driver import FakeDriver
from tests.runtime.tensors import FORMATS, is_pointer, shape_of, sizes_of

BLACKWELL = (10, 0)


def parameter_sizes() -> Mapping[str, tuple[int, ...]]:
    return {kernel.symbol: sizes_of(kernel) for kernel in emulated_library(OPERATOR_ARCH).registry.kernels}


@dataclass
class EmulatingDriver(FakeDriver):
    """``dims``: the run-time dims of the calls that are made, by name."""

    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=parameter_sizes)
    capabilities: Mapping[int, tuple[int, int]] = field(default_factory=lambda: {0: BLACKWELL})
    dims: Mapping[str, int] = field(default_factory=dict)
    library: EmulatedLibrary = field(default_factory=lambda: emulated_library(OPERATOR_ARCH))

    def launch(
        self,
        function: object,
        *,
        blocks: int,
        threads: int,
        shared_bytes: int,
        parameters: int,
        stream: int,
        device: int,
    ) -> None:
        super().launch(
            function,
            blocks=blocks,
            threads=threads,
            shared_bytes=shared_bytes,
            parameters=parameters,
            stream=stream,
            device=device,
        )
        launched = self.launches[-1]
        kernel = next(kernel for kernel in self.library.registry.kernels if kernel.symbol == launched.symbol)
        self.library.prepare([kernel])
        self.library.launch(kernel, {**self.dims, **self._values(kernel, launched.parameters)})

    def _values(self, kernel: KernelEntry, parameters: tuple[bytes, ...]) -> dict[str, Value]:
        numbers = {
            argument.name: struct.unpack("<Q" if is_pointer(argument) else FORMATS[argument.dtype], value)[0]
            for argument, value in zip(kernel.arguments, parameters, strict=True)
        }
        strides = {
            (a.source.tensor, a.source.dim): numbers[a.name]
            for a in kernel.arguments
            if isinstance(a.source, StrideSource)
        }
        tensors = {a.name: self._tensor(a, numbers[a.name], strides) for a in kernel.arguments if is_pointer(a)}
        return {**numbers, **tensors}

    def _tensor(self, argument: ArgumentEntry, address: int, strides: Mapping[tuple[str, int], int]) -> Tensor | None:
        if address == 0:
            return None
        shape = shape_of(argument, self.dims)
        row_major = torch.empty(shape, device="meta").stride()
        steps = [strides.get((argument.name, i), step) for i, step in enumerate(row_major)]
        span = 1 + sum((size - 1) * step for size, step in zip(shape, steps, strict=True))
        dtype = TORCH_DTYPES[argument.dtype]
        memory = (ctypes.c_byte * (span * dtype.itemsize)).from_address(address)
        return torch.frombuffer(memory, dtype=dtype).as_strided(shape, steps)
