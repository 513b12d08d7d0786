"""A driver without a GPU: it remembers what it was asked, and reads the parameters of a launch as the real one does."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from loomgen.runtime.driver import DriverError
from loomgen.target.tensor_map import MatrixBox
from tests.runtime.tensors import encoded

HOPPER = (9, 0)


@dataclass(frozen=True)
class Launch:
    """What one launch was; ``parameters`` are the bytes of each, in the order of the signature."""

    symbol: str
    device: int
    current_device: int
    stream: int
    blocks: int
    threads: int
    shared_bytes: int
    allowed_shared_bytes: int
    parameters: tuple[bytes, ...]


@dataclass
class FakeDriver:
    """``sizes`` are the bytes of each parameter by kernel symbol."""

    sizes: Mapping[str, tuple[int, ...]]
    capabilities: Mapping[int, tuple[int, int]] = field(default_factory=lambda: {0: HOPPER, 1: HOPPER})
    stream: int = 0
    is_capturing: bool = False
    refuses: str | None = None
    loads: list[tuple[int, str, bytes]] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    allowed: dict[str, int] = field(default_factory=dict)
    current: int = 0

    def capability(self, device: int) -> tuple[int, int]:
        return self.capabilities[device]

    def load(self, device: int, cubin: bytes, name: str) -> Any:
        if self.refuses == "load":
            raise DriverError(f"cuModuleLoadData of {name}: CUDA_ERROR_INVALID_IMAGE")
        self.loads.append((device, name, cubin))
        return device

    def encode(self, box: MatrixBox) -> bytes:
        return encoded(box.address, box.dtype, box.rows, box.cols, box.box_rows, box.box_cols, box.swizzle)

    def function(self, module: Any, symbol: str) -> Any:
        return module, symbol

    def allow_dynamic_shared(self, function: Any, n_bytes: int) -> None:
        self.allowed[function[1]] = n_bytes

    def launch(
        self,
        function: Any,
        *,
        blocks: int,
        threads: int,
        shared_bytes: int,
        parameters: int,
        stream: int,
        device: int,
    ) -> None:
        module_device, symbol = function
        assert module_device == device, "a module belongs to its device"
        sizes = self.sizes[symbol]
        pointers = (ctypes.c_void_p * len(sizes)).from_address(parameters)
        values = tuple(ctypes.string_at(p or 0, size) for p, size in zip(pointers, sizes, strict=True))
        allowed = self.allowed.get(symbol, 0)
        self.launches.append(
            Launch(symbol, device, self.current, stream, blocks, threads, shared_bytes, allowed, values)
        )

    def current_stream(self, device: int) -> int:
        return self.stream + 1000 * device

    def capturing(self, device: int, stream: int) -> bool:
        return self.is_capturing

    def on(self, device: int) -> Any:
        return Reentered(self, device)


class HasCurrent(Protocol):
    current: int


class Reentered:
    """As torch.cuda.device: one object that is entered again and again."""

    def __init__(self, driver: HasCurrent, device: int) -> None:
        self.driver, self.device, self.before = driver, device, 0

    def __enter__(self) -> None:
        self.before, self.driver.current = self.driver.current, self.device

    def __exit__(self, *_: object) -> None:
        self.driver.current = self.before
