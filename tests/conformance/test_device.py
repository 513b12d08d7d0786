"""Launches through the driver's interface, without a driver."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loomgen.conformance.case import Box, Case
from loomgen.conformance.compare import Bitwise
from loomgen.conformance.device import Device, DeviceError, compile_cubin
from loomgen.target import TARGETS
from tests.conformance.fake_driver import CUresult, FakeDriver

CASE = Case(
    name="scaled",
    primitives=(),
    source="none",
    kernel="scaled",
    inputs=lambda: (np.arange(8, dtype=np.uint32),),
    output_dtype=np.uint32,
    output_shape=(8,),
    scalars=(-3,),
    grid=2,
    block=32,
    shared_bytes=64,
    comparison=Bitwise(),
)


def test_arguments_reach_the_kernel_and_results_come_back() -> None:
    launches = []

    def kernel(parameters: list[int], launch: tuple[int, int, int]) -> CUresult:
        launches.append(launch)
        x = (ctypes.c_uint32 * 8).from_address(ctypes.c_uint64.from_address(parameters[0]).value)
        y = (ctypes.c_uint32 * 8).from_address(ctypes.c_uint64.from_address(parameters[1]).value)
        scalar = ctypes.c_int32.from_address(parameters[2]).value
        assert y[7] == 0xA5A5A5A5
        y[:7] = [x[i] + 10 + scalar for i in range(7)]
        return CUresult.CUDA_SUCCESS

    driver = FakeDriver(kernel, 3)
    output = Device(driver=driver, module=None).run(CASE, CASE.inputs())
    assert output.tolist() == [7, 8, 9, 10, 11, 12, 13, 0xA5A5A5A5]
    assert launches == [(2, 32, 64)]
    assert (driver.shared_limit, driver.memory) == (64, {})


def test_an_array_with_a_box_goes_as_a_map() -> None:
    """Columns come before rows, as the hardware counts."""
    case = replace(
        CASE,
        inputs=lambda: (np.zeros((6, 40), np.uint16),),
        output_shape=(12, 24),
        scalars=(),
        boxes=(Box(rows=3, cols=32, swizzle=2), Box(rows=5, cols=24, swizzle=0)),
    )
    maps: list[list[int]] = []

    def kernel(parameters: list[int], launch: tuple[int, int, int]) -> CUresult:
        maps.extend(list((ctypes.c_uint64 * 14).from_address(address)) for address in parameters)
        return CUresult.CUDA_SUCCESS

    driver = FakeDriver(kernel, 2)
    Device(driver=driver, module=None).run(case, case.inputs())
    addresses = [numbers.pop(2) for numbers in maps]
    assert maps[0] == [1, 2, 40, 6, 80, 32, 3, 1, 1, 0, 2, 3, 0]
    assert maps[1] == [2, 2, 24, 12, 96, 24, 5, 1, 1, 0, 0, 3, 0]
    assert len(set(addresses)) == 2


def test_a_failed_launch_is_an_error_and_frees_its_memory() -> None:
    driver = FakeDriver(lambda parameters, launch: CUresult.CUDA_ERROR_LAUNCH_FAILED, 3)
    with pytest.raises(DeviceError, match="cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED"):
        Device(driver=driver, module=None).run(CASE, CASE.inputs())
    assert driver.memory == {}


def test_what_the_compiler_says_is_the_error(tmp_path: Path) -> None:
    compiler = tmp_path / "nvcc"
    compiler.write_text("#!/bin/sh\necho 'no such instruction' >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(DeviceError, match="sm_90a:\nno such instruction"):
        compile_cubin(TARGETS[0], compiler, tmp_path / "kernels.cubin")
