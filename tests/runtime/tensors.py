"""Tensors for every argument of a registry kernel, and what C says of its parameters."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from loomgen.registry import ArgumentEntry, BoxEntry, KernelEntry, StrideSource
from loomgen.runtime.bind import Value
from loomgen.runtime.dtypes import TORCH_DTYPES

SIZES = {"NB": 2, "NS": 2, "NR": 3, "R": 7, "T": 5, "N": 2, "NC": 3, "H": 2, "HV": 4, "SLOTS": 6, "QKV": 256}
SCALARS: dict[str, Value] = {"scale": 0.25, "eps": 1e-6, "normalise": True, "silu": False, "largest_step": 2.0}

_C_TYPES: dict[str, Any] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "bool": ctypes.c_bool}
FORMATS = {"i32": "<i", "i64": "<q", "f32": "<f", "bool": "<?"}


def is_pointer(argument: ArgumentEntry) -> bool:
    return argument.kind in ("tensor", "table")


def shape_of(argument: ArgumentEntry, sizes: Mapping[str, int] = SIZES) -> list[int]:
    """The extents, where ``N + 1`` is one more than N."""
    parts = [extent.split(" + ") if isinstance(extent, str) else [str(extent)] for extent in argument.shape]
    return [sum(sizes[part] if part in sizes else int(part) for part in extent) for extent in parts]


def tensors_for(*kernels: KernelEntry, sizes: Mapping[str, int] = SIZES) -> dict[str, Value]:
    """A tensor for each pointer and a number for each scalar and dim of the kernels, by name."""
    pointers = {a.tensor: a for kernel in kernels for a in kernel.arguments if a.tensor is not None}
    made = {name: torch.zeros(shape_of(a, sizes), dtype=TORCH_DTYPES[a.dtype]) for name, a in pointers.items()}
    dims = {a.name: sizes[a.name] for kernel in kernels for a in kernel.arguments if a.kind == "dim"}
    grids = {extent: sizes[extent] for kernel in kernels for extent in kernel.launch.grid if isinstance(extent, str)}
    return {**SCALARS, **grids, **dims, **made}


def parameter_bytes(kernel: KernelEntry, given: Mapping[str, Value]) -> tuple[bytes, ...]:
    """What each parameter of a launch must be, said without the runtime: from the registry's argument plan alone."""
    return tuple(_bytes(argument, given) for argument in kernel.arguments)


def _bytes(argument: ArgumentEntry, given: Mapping[str, Value]) -> bytes:
    if is_pointer(argument):
        tensor = given[argument.name]
        return struct.pack("<Q", tensor.data_ptr() if isinstance(tensor, Tensor) else 0)
    if isinstance(argument.source, BoxEntry):
        return _map_bytes(argument, argument.source, given)
    return struct.pack(FORMATS[argument.dtype], _number(argument, given))


def _map_bytes(argument: ArgumentEntry, box: BoxEntry, given: Mapping[str, Value]) -> bytes:
    """What the fake driver makes of a matrix: rows of the first dimension, boxes as the registry has them."""
    tensor = given[box.tensor]
    assert isinstance(tensor, Tensor)
    shape = (tensor.shape[0], math.prod(tensor.shape[1:]), box.rows, box.cols, box.swizzle)
    return encoded(tensor.data_ptr(), argument.dtype, *shape)


def encoded(address: int, dtype: str, *numbers: int) -> bytes:
    """128 bytes that tell a map from every other one."""
    return struct.pack("<Q8s5q", address, dtype.encode(), *numbers).ljust(128, b"\0")


def _number(argument: ArgumentEntry, given: Mapping[str, Value]) -> Any:
    if not isinstance(argument.source, StrideSource):
        return SIZES[argument.name] if argument.kind == "dim" else given[argument.name]
    tensor = given[argument.source.tensor]
    return tensor.stride(argument.source.dim) if isinstance(tensor, Tensor) else 0


def sizes_of(kernel: KernelEntry) -> tuple[int, ...]:
    return tuple(_size(argument) for argument in kernel.arguments)


def _size(argument: ArgumentEntry) -> int:
    if argument.kind == "tensor_map":
        return 128
    return 8 if is_pointer(argument) else ctypes.sizeof(_C_TYPES[argument.dtype])


def c_structure(kernel: KernelEntry) -> type[ctypes.Structure]:
    """The parameters but for maps as members of a C struct, which are laid out like parameters."""
    plain = [argument for argument in kernel.arguments if argument.kind != "tensor_map"]
    members = [(a.name, ctypes.c_void_p if is_pointer(a) else _C_TYPES[a.dtype]) for a in plain]
    return type("Parameters", (ctypes.Structure,), {"_fields_": members})


def blocks_of(kernel: KernelEntry) -> int:
    return math.prod(extent if isinstance(extent, int) else SIZES[extent] for extent in kernel.launch.grid)
