"""The real driver's Python half, over a stand-in for ``cuda.bindings.driver``."""

from __future__ import annotations

import sys
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
import torch

from loomgen.runtime.driver import CudaDriver, DriverError
from tests.runtime.fake_driver import Reentered


class CUresult(Enum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class CUfunction_attribute(Enum):
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class Bindings(ModuleType):
    """``answers`` are the results of calls to come, by name; any other call succeeds with its own name."""

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.CUresult, self.CUfunction_attribute = CUresult, CUfunction_attribute
        self.answers: dict[str, list[CUresult]] = {}
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, call: str) -> Any:
        if not call.startswith("cu"):
            raise AttributeError(call)

        def answer(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((call, *arguments))
            status = self.answers[call].pop(0) if self.answers.get(call) else CUresult.CUDA_SUCCESS
            has_result = call not in ("cuInit", "cuLaunchKernel", "cuCtxSetCurrent", "cuFuncSetAttribute")
            return (status, call) if has_result else (status,)

        return answer


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Bindings:
    """torch and the bindings as on a machine with a GPU whose current stream is 77."""
    found = Bindings()
    monkeypatch.setattr(found, "cuGetErrorString", lambda status: (CUresult.CUDA_SUCCESS, b"what it means"))
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", found)
    monkeypatch.setitem(sys.modules, "cuda.bindings", ModuleType("cuda.bindings"))
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, device))
    monkeypatch.setattr(torch.cuda, "device", lambda device: Reentered(_Current(), device))
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 77 + device, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: False, raising=False)
    return found


class _Current:
    current = 0


LAUNCH: dict[str, int] = {
    "blocks": 6,
    "threads": 128,
    "shared_bytes": 99,
    "parameters": 0xABC,
    "stream": 77,
    "device": 1,
}


def test_what_a_launch_is_to_the_driver(bindings: Bindings) -> None:
    driver = CudaDriver()
    assert driver.current_stream(1) == 78
    assert driver.capability(1) == (9, 1)
    assert not driver.capturing(0, 77)
    driver.launch("function", **LAUNCH)
    assert bindings.calls == [("cuInit", 0), ("cuLaunchKernel", "function", 6, 1, 1, 128, 1, 1, 99, 77, 0xABC, 0)]


def test_loading_binds_torchs_context_of_the_device_once(bindings: Bindings) -> None:
    driver = CudaDriver()
    for cubin in (b"one", b"two"):
        module = driver.load(1, cubin, "a kernel")
    function = driver.function(module, "symbol")
    driver.allow_dynamic_shared(function, 99)
    assert bindings.calls[1:] == [
        ("cuDeviceGet", 1),
        ("cuDevicePrimaryCtxRetain", "cuDeviceGet"),
        ("cuCtxSetCurrent", "cuDevicePrimaryCtxRetain"),
        ("cuModuleLoadData", b"one"),
        ("cuCtxSetCurrent", "cuDevicePrimaryCtxRetain"),
        ("cuModuleLoadData", b"two"),
        ("cuModuleGetFunction", "cuModuleLoadData", b"symbol"),
        (
            "cuFuncSetAttribute",
            "cuModuleGetFunction",
            CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            99,
        ),
    ]


def test_a_thread_without_a_context_gets_one(bindings: Bindings) -> None:
    driver = CudaDriver()
    bindings.answers["cuLaunchKernel"] = [CUresult.CUDA_ERROR_INVALID_CONTEXT]
    driver.launch("function", **LAUNCH)
    assert [call for call, *_ in bindings.calls[1:]] == [
        "cuLaunchKernel",
        "cuDeviceGet",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuLaunchKernel",
    ]


def test_an_error_names_the_call_and_what_the_driver_said(bindings: Bindings) -> None:
    driver = CudaDriver()
    bindings.answers["cuLaunchKernel"] = [CUresult.CUDA_ERROR_ILLEGAL_ADDRESS]
    with pytest.raises(DriverError) as caught:
        driver.launch("function", **LAUNCH)
    assert str(caught.value) == (
        "cuLaunchKernel of 6 blocks of 128 threads: CUDA_ERROR_ILLEGAL_ADDRESS (what it means)"
    )
    bindings.answers["cuModuleLoadData"] = [CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU]
    with pytest.raises(DriverError, match=r"cuModuleLoadData of a kernel: CUDA_ERROR_NO_BINARY_FOR_GPU \(what it"):
        driver.load(0, b"cubin", "a kernel")


def test_without_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(DriverError, match=r"cuda\.bindings cannot be imported .*: pip install 'loomgen\[cuda\]'"):
        CudaDriver()


def test_without_a_driver(bindings: Bindings, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(flags: int) -> None:
        raise RuntimeError("libcuda.so.1: cannot open")

    monkeypatch.setattr(bindings, "cuInit", fail)
    with pytest.raises(DriverError, match=r"no CUDA driver: libcuda\.so\.1: cannot open"):
        CudaDriver()


def test_without_a_torch_for_cuda(bindings: Bindings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DriverError, match="sees no GPU: install a build of torch for CUDA"):
        CudaDriver()
