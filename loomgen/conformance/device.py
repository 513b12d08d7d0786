"""The device's half: the same kernels through nvcc and the CUDA driver."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from loomgen.conformance.case import INCLUDE, KERNELS, Box, Case
from loomgen.conformance.compare import Array
from loomgen.errors import LoomgenError
from loomgen.target import Target
from loomgen.target.tensor_map import MatrixBox, tiled_arguments

NVCC_FLAGS = ("-std=c++17", "-O3", "-fmad=false")
"""As the exported kernels are compiled, so that the operators round alike."""


class DeviceError(LoomgenError):
    """nvcc or the CUDA driver refused; the message is theirs."""


def compile_cubin(target: Target, nvcc: Path, cubin: Path) -> None:
    """Compiles every kernel for ``target`` into one cubin; raises :class:`DeviceError`."""
    command = [str(nvcc), *NVCC_FLAGS, target.gencode, f"-I{INCLUDE}", "--cubin", "-o", str(cubin)]
    done = subprocess.run([*command, str(KERNELS / "all.cu")], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DeviceError(f"nvcc could not compile the kernels for {target.name}:\n{done.stderr.strip()}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The first GPU with the kernels loaded. ``driver`` is the module ``cuda.bindings.driver``."""

    driver: Any
    module: Any

    def run(self, case: Case, inputs: Sequence[Array]) -> Array:
        """The case's output on the GPU; raises :class:`DeviceError`."""
        output = case.empty_output()
        arrays = [*inputs, output]
        with self._memory(arrays) as addresses:
            self._launch(case, arrays, addresses)
            self._call("cuMemcpyDtoH", output.ctypes.data, addresses[-1], output.nbytes)
        return output

    @contextmanager
    def _memory(self, arrays: Sequence[Array]) -> Iterator[list[Any]]:
        """Copies of the arrays on the device, for as long as the context lasts."""
        addresses: list[Any] = []
        try:
            for array in arrays:
                addresses.append(self._call("cuMemAlloc", array.nbytes))
                self._call("cuMemcpyHtoD", addresses[-1], array.ctypes.data, array.nbytes)
            yield addresses
        finally:
            for address in addresses:
                self.driver.cuMemFree(address)  # unchecked: after a failed launch it fails as well

    def _launch(self, case: Case, arrays: Sequence[Array], addresses: Sequence[Any]) -> None:
        function = self._call("cuModuleGetFunction", self.module, case.kernel.encode())
        attribute = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._call("cuFuncSetAttribute", function, attribute, case.shared_bytes)
        maps = {i: self._map(box, arrays[i], addresses[i]) for i, box in enumerate(case.boxes) if box is not None}
        values = (*(ctypes.c_uint64(int(a)) for a in addresses), *(ctypes.c_int32(s) for s in case.scalars))
        places = [maps[i].getPtr() if i in maps else ctypes.addressof(value) for i, value in enumerate(values)]
        pointers = np.array(places, np.uint64)
        shape = (case.grid, 1, 1, case.block, 1, 1, case.shared_bytes)
        self._call("cuLaunchKernel", function, *shape, 0, pointers.ctypes.data, 0)
        self._call("cuCtxSynchronize")

    def _map(self, box: Box, array: Array, address: Any) -> Any:
        """The encoded map of a matrix whose elements are moved as bits."""
        rows, cols = array.shape
        matrix = MatrixBox(
            address=int(address),
            dtype=f"u{8 * array.itemsize}",
            rows=rows,
            cols=cols,
            box_rows=box.rows,
            box_cols=box.cols,
            swizzle=box.swizzle,
        )
        return self._call("cuTensorMapEncodeTiled", *tiled_arguments(self.driver, matrix))

    def _call(self, function: str, *arguments: Any) -> Any:
        return call(self.driver, function, *arguments)


def call(driver: Any, function: str, *arguments: Any) -> Any:
    """Calls a function of the driver; returns its result, if it has one, and raises :class:`DeviceError` on failure."""
    status, *results = getattr(driver, function)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(f"{function}: {status.name}")
    return results[0] if results else None


@contextmanager
def open_device(cubin: Path) -> Iterator[Device]:
    """The first GPU, with the kernels of ``cubin``; raises :class:`DeviceError` if there is none."""
    try:
        driver = import_module("cuda.bindings.driver")
        call(driver, "cuInit", 0)
    except (ImportError, RuntimeError) as error:
        raise DeviceError(f"no CUDA driver: {error}") from error
    gpu = call(driver, "cuDeviceGet", 0)
    context = call(driver, "cuDevicePrimaryCtxRetain", gpu)
    try:
        call(driver, "cuCtxSetCurrent", context)
        yield Device(driver=driver, module=call(driver, "cuModuleLoadData", cubin.read_bytes()))
    finally:
        driver.cuDevicePrimaryCtxRelease(gpu)
