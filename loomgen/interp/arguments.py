"""A kernel's arguments as the interpreter uses them: tensors as numpy views, dims, scalars and window tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from loomgen.interp.rounding import round_to
from loomgen.interp.tiles import Array
from loomgen.interp.windows import Tables
from loomgen.ir.tile import GridAxis, Program, Tensor, WindowKind
from loomgen.ir.types import DType
from loomgen.registry.tables import CHUNK_START, CU_SEQLENS, WINDOW_TABLES
from loomgen.runtime.dtypes import DTYPE_NAMES

Argument = torch.Tensor | int | float | bool | None

_DTYPES: Mapping[torch.dtype, DType | None] = {
    torch.float64: None,
    **{dtype: DType(name) for dtype, name in DTYPE_NAMES.items()},
}

_BF16_NAN = 0x7FFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A tensor's elements, shared with the caller's tensor; bf16 elements are held as their 16 bits.

    ``holds`` is the type the caller chose, None for float64; it need not be the tensor's declared one.
    """

    tensor: Tensor
    storage: Array
    holds: DType | None

    @property
    def is_as_declared(self) -> bool:
        return self.holds is self.tensor.dtype

    def gather(self, positions: tuple[Array, ...]) -> Array:
        """Elements at ``positions``: float64, float32 (which holds every narrower float), i64 or bool."""
        elements = np.asarray(self.storage[positions])
        if self.holds is DType.BF16:
            return (elements.astype(np.uint32) << 16).view(np.float32)
        if self.holds is DType.F16:
            return elements.astype(np.float32)
        return elements.astype(np.int64) if elements.dtype.kind == "i" else elements

    def scatter(self, positions: tuple[Array, ...], values: Array) -> None:
        """Elements at ``positions`` become ``values``, rounded if the caller's type is narrower than they are."""
        self.storage[positions] = _bf16_bits(values) if self.holds is DType.BF16 else values


def _bf16_bits(values: Array) -> Array:
    bits = round_to(values, DType.BF16).astype(np.float32).view(np.uint32) >> 16
    return np.where(np.isnan(values), _BF16_NAN, bits).astype(np.uint16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a program was called with. ``buffers`` maps an absent optional tensor to None."""

    buffers: Mapping[str, Buffer | None]
    scalars: Mapping[str, int | float | bool]
    tables: Tables


def bind(program: Program, arguments: Mapping[str, Argument]) -> Arguments:
    """``arguments`` checked against what ``program`` declares.

    Run-time dims come from the tensors' shapes and the tables; those passed as numbers must agree. Raises ValueError
    naming the argument.
    """
    buffers = {tensor.name: _buffer(tensor, arguments) for tensor in program.tensors}
    tables = {name: _table(name, arguments[name]) for name in WINDOW_TABLES if arguments.get(name) is not None}
    dims: dict[str, int] = {}
    for source, name, size in _dims(program, arguments, buffers, tables):
        if dims.setdefault(name, size) != size:
            raise ValueError(f"{source}: {name} is {size} here and {dims[name]} elsewhere")
    scalars = {scalar.name: _scalar(scalar.name, arguments) for scalar in program.scalars}
    return Arguments(buffers=buffers, scalars={**dims, **scalars}, tables=tables)


def _buffer(tensor: Tensor, arguments: Mapping[str, Argument]) -> Buffer | None:
    if tensor.name not in arguments:
        raise ValueError(f"tensor {tensor.name} is missing")
    given = arguments[tensor.name]
    if given is None and tensor.optional:
        return None
    if not isinstance(given, torch.Tensor):
        raise ValueError(f"{tensor.name} is {given!r}: want a tensor")
    if given.device.type != "cpu" or given.dtype not in _DTYPES:
        raise ValueError(
            f"{tensor.name} is {given.dtype} on {given.device}: want a CPU tensor of a type of the language"
        )
    if given.dtype.is_floating_point != tensor.dtype.is_float:
        raise ValueError(f"{tensor.name} is {given.dtype}: declared {tensor.dtype.value}")
    if given.ndim != len(tensor.shape):
        raise ValueError(f"{tensor.name} has shape {tuple(given.shape)}: declared {tensor.shape}")
    holds = _DTYPES[given.dtype]
    bits = given.detach().view(torch.uint16) if holds is DType.BF16 else given.detach()
    return Buffer(tensor=tensor, storage=bits.numpy(), holds=holds)


def _table(name: str, given: Argument) -> Array:
    if not isinstance(given, torch.Tensor) or given.ndim != 1 or given.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} is not a one-dimensional tensor of integers")
    return given.detach().numpy().astype(np.int64)


def _scalar(name: str, arguments: Mapping[str, Argument]) -> int | float | bool:
    given = arguments.get(name)
    if given is None or isinstance(given, torch.Tensor):
        raise ValueError(f"scalar {name} is missing")
    return given


def _dims(
    program: Program, arguments: Mapping[str, Argument], buffers: Mapping[str, Buffer | None], tables: Tables
) -> Iterator[tuple[str, str, int]]:
    """Every statement of a dim's size: where it comes from, the dim, the size."""
    static = dict(program.dims)
    for dim, size in static.items():
        yield "dims", dim, size
    for dim in program.runtime_dims:
        given = arguments.get(dim)
        if isinstance(given, int):
            yield "argument", dim, given
    for name, buffer in buffers.items():
        if buffer is not None:
            yield from _tensor_dims(name, buffer)
    for axis in program.grid:
        yield from _grid_dims(axis, tables)


def _tensor_dims(name: str, buffer: Buffer) -> Iterator[tuple[str, str, int]]:
    for dim, size in zip(buffer.tensor.shape, buffer.storage.shape, strict=True):
        if isinstance(dim, str):
            yield name, dim, size
        elif dim != size:
            raise ValueError(f"{name} has shape {buffer.storage.shape}: declared {buffer.tensor.shape}")


def _grid_dims(axis: GridAxis, tables: Tables) -> Iterator[tuple[str, str, int]]:
    if axis.window is None or isinstance(axis.count, int):
        return
    if axis.window.kind is WindowKind.SEQUENCE and CU_SEQLENS in tables:
        yield CU_SEQLENS, axis.count, len(tables[CU_SEQLENS]) - 1
    if axis.window.kind is WindowKind.CHUNK and CHUNK_START in tables:
        yield CHUNK_START, axis.count, len(tables[CHUNK_START])
