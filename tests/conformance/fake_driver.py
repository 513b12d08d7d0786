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


class CUtensorMapDataType(Enum):
    CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1
    CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2


class CUtensorMapInterleave(Enum):
    CU_TENSOR_MAP_INTERLEAVE_NONE = 0


class CUtensorMapSwizzle(Enum):
    CU_TENSOR_MAP_SWIZZLE_NONE = 0
    CU_TENSOR_MAP_SWIZZLE_32B = 1
    CU_TENSOR_MAP_SWIZZLE_64B = 2
    CU_TENSOR_MAP_SWIZZLE_128B = 3


class CUtensorMapL2promotion(Enum):
    CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3


class CUtensorMapFloatOOBfill(Enum):
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0


class FakeMap:
    """An encoded map: 16 numbers, as a kernel finds them behind its parameter."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = (ctypes.c_uint64 * 16)(*numbers)

    def getPtr(self) -> int:
        return ctypes.addressof(self.numbers)


class FakeDriver:
    """``kernel`` is called with the addresses of a launch's parameters and its grid, block and shared bytes."""

    def __init__(self, kernel: Callable[[list[int], tuple[int, int, int]], CUresult], n_parameters: int) -> None:
        self.CUresult: Any = CUresult
        self.CUfunction_attribute: Any = CUfunction_attribute
        self.CUtensorMapDataType: Any = CUtensorMapDataType
        self.CUtensorMapInterleave: Any = CUtensorMapInterleave
        self.CUtensorMapSwizzle: Any = CUtensorMapSwizzle
        self.CUtensorMapL2promotion: Any = CUtensorMapL2promotion
        self.CUtensorMapFloatOOBfill: Any = CUtensorMapFloatOOBfill
        self.cuuint32_t: Any = int
        self.cuuint64_t: Any = int
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

    def cuTensorMapEncodeTiled(
        self,
        dtype: CUtensorMapDataType,
        rank: int,
        address: int,
        dims: list[int],
        strides: list[int],
        box: list[int],
        steps: list[int],
        interleave: CUtensorMapInterleave,
        swizzle: CUtensorMapSwizzle,
        promotion: CUtensorMapL2promotion,
        fill: CUtensorMapFloatOOBfill,
    ) -> tuple[CUresult, FakeMap]:
        modes = [mode.value for mode in (interleave, swizzle, promotion, fill)]
        return CUresult.CUDA_SUCCESS, FakeMap([dtype.value, rank, address, *dims, *strides, *box, *steps, *modes])

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
