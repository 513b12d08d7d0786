"""A stand-in for ``cuda.bindings.driver``: device memory is host memory, and a launch calls a Python function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import Enum
from typing import Any


class CUresult(Enum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_LAUNCH_FAILED = 719


class CUfunction_attribute(Enum):
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class FakeDriver:
    """``kernel`` is called with the addresses of a launch's parameters and its grid, block and shared bytes."""

    def __init__(self, kernel: Callable[[list[int], tuple[int, int, int]], CUresult], n_parameters: int) -> None:
        self.CUresult: Any = CUresult
        self.CUfunction_attribute: Any = CUfunction_attribute
        self.kernel = kernel
        self.n_parameters = n_parameters
        self.memory: dict[int, Any] = {}
        self.shared_limit = 0

    def cuMemAlloc(self, n_bytes: int) -> tuple[CUresult, int]:
        block = ctypes.create_string_buffer(n_bytes)
        self.memory[ctypes.addressof(block)] = block
        return CUresult.CUDA_SUCCESS, ctypes.addressof(block)

    def cuMemFree(self, address: int) -> tuple[CUresult]:
        del self.memory[address]
        return (CUresult.CUDA_SUCCESS,)

    def cuMemcpyHtoD(self, target: int, source: int, n_bytes: int) -> tuple[CUresult]:
        ctypes.memmove(target, source, n_bytes)
        return (CUresult.CUDA_SUCCESS,)

    def cuMemcpyDtoH(self, target: int, source: int, n_bytes: int) -> tuple[CUresult]:
        ctypes.memmove(target, source, n_bytes)
        return (CUresult.CUDA_SUCCESS,)

    def cuModuleGetFunction(self, module: object, name: bytes) -> tuple[CUresult, str]:
        return CUresult.CUDA_SUCCESS, name.decode()

    def cuFuncSetAttribute(self, function: str, attribute: CUfunction_attribute, value: int) -> tuple[CUresult]:
        self.shared_limit = value
        return (CUresult.CUDA_SUCCESS,)

    def cuLaunchKernel(self, function: str, *launch: int) -> tuple[CUresult]:
        grid, _, _, block, _, _, shared_bytes, _, parameters, _ = launch
        pointers = (ctypes.c_uint64 * self.n_parameters).from_address(parameters)
        return (self.kernel(list(pointers), (grid, block, shared_bytes)),)

    def cuCtxSynchronize(self) -> tuple[CUresult]:
        return (CUresult.CUDA_SUCCESS,)
