"""The arguments of a launch: tensors, tensor maps and scalars, as the emulator takes them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from loomgen.emulator.abi import MapC, TensorC
from loomgen.emulator.build import Kind, Parameter

Access = Literal["in", "out", "inout"]

_ACCESS: dict[Access, int] = {"in": 0, "out": 1, "inout": 2}
_NOT_PASSED = -1
_MAX_BOX = 256


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor argument: a C-contiguous array, or None for a null pointer.

    bf16 is passed as uint16. ``in`` may not be written; an element of ``out`` may not be read before the kernel has
    written it, and keeps the caller's value when it never does; ``out`` and ``inout`` are updated in place when the
    launch ends well.
    """

    array: npt.NDArray[Any] | None
    access: Access


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """A tensor map argument: ``buffer``, called ``tensor``, as a matrix of ``rows`` x ``cols`` elements.

    It is copied by boxes of ``box_rows`` x ``box_cols``, in shared memory swizzled as a ``SharedTile`` of ``swizzle``.
    A tensor that is passed as a pointer as well, or in several maps, has one name and one array.
    """

    tensor: str
    buffer: Buffer
    rows: int
    cols: int
    box_rows: int
    box_cols: int
    swizzle: int


Value = Buffer | TensorMap | int | float | bool

_TYPES: dict[Kind, type[Buffer] | type[TensorMap]] = {"pointer": Buffer, "tensor_map": TensorMap}


def tensors_of(parameters: Sequence[Parameter], arguments: Mapping[str, Value]) -> dict[str, TensorC]:
    """The tensors that were passed, by name: those that the kernel has pointers to, and those of maps alone."""
    tensors = {}
    for position, parameter in enumerate(parameters):
        value = arguments[parameter.name]
        if isinstance(value, Buffer) and value.array is not None:
            tensors[parameter.name] = _tensor(parameter.name, value, position)
    for parameter in parameters:
        value = arguments[parameter.name]
        if not isinstance(value, TensorMap):
            continue
        mapped = _tensor(value.tensor, value.buffer, _NOT_PASSED)
        if tensors.setdefault(value.tensor, mapped).contents != mapped.contents:
            raise ValueError(f"argument {parameter.name}: tensor {value.tensor} is passed as two arrays")
    return tensors


def maps_of(
    parameters: Sequence[Parameter], arguments: Mapping[str, Value], tensors: Mapping[str, TensorC]
) -> list[MapC]:
    """The tensor maps; ``tensors`` has theirs."""
    positions = {name: position for position, name in enumerate(tensors)}
    maps = []
    for position, parameter in enumerate(parameters):
        value = arguments[parameter.name]
        if isinstance(value, TensorMap):
            maps.append(_map(parameter.name, value, tensor=positions[value.tensor], parameter=position))
    return maps


def _tensor(name: str, buffer: Buffer, parameter: int) -> TensorC:
    array = _checked_array(name, buffer)
    return TensorC(
        name=name.encode(),
        contents=array.ctypes.data,
        bytes=array.nbytes,
        access=_ACCESS[buffer.access],
        parameter=parameter,
    )


def _map(name: str, value: TensorMap, *, tensor: int, parameter: int) -> MapC:
    """Raises ValueError for what the hardware refuses to encode."""
    array = _checked_array(value.tensor, value.buffer)
    row_bytes, box_bytes = value.cols * array.itemsize, value.box_cols * array.itemsize
    if value.rows * value.cols != array.size:
        raise ValueError(f"argument {name}: {value.rows} x {value.cols} elements of a tensor of {array.size}")
    if not (0 < value.box_rows <= _MAX_BOX and 0 < value.box_cols <= _MAX_BOX):
        raise ValueError(f"argument {name}: a box of {value.box_rows} x {value.box_cols}, want 1 .. {_MAX_BOX} of each")
    if row_bytes % 16 != 0 or box_bytes % 16 != 0:
        raise ValueError(f"argument {name}: rows of {row_bytes} and {box_bytes} bytes, want multiples of 16")
    if not 0 <= value.swizzle <= 3 or (value.swizzle and box_bytes > 16 << value.swizzle):
        raise ValueError(f"argument {name}: swizzle {value.swizzle} of a box with rows of {box_bytes} bytes")
    return MapC(
        tensor=tensor,
        parameter=parameter,
        rows=value.rows,
        cols=value.cols,
        element_bytes=array.itemsize,
        box_rows=value.box_rows,
        box_cols=value.box_cols,
        swizzle=value.swizzle,
    )


def _checked_array(name: str, buffer: Buffer) -> npt.NDArray[Any]:
    if buffer.array is None:
        raise ValueError(f"argument {name}: a tensor map of a null pointer")
    if not buffer.array.flags.c_contiguous:
        raise ValueError(f"argument {name}: want a C-contiguous array, pass the one it is a view of")
    if buffer.access != "in" and not buffer.array.flags.writeable:
        raise ValueError(f"argument {name}: an output array may not be read-only")
    return buffer.array


def scalar_bits(parameter: Parameter, value: Value) -> int:
    """The value's bytes, as a little-endian integer of 64 bits; 0 for a pointer and a tensor map."""
    wanted = _TYPES.get(parameter.kind)
    if wanted is not None and isinstance(value, wanted):
        return 0
    match value:
        case bool() | int() | np.integer() if parameter.kind in ("i32", "i64", "bool"):
            return _integer_bits(parameter, int(value))
        case float() | int() | np.floating() if parameter.kind == "f32":
            return int.from_bytes(struct.pack("<f", float(value)), "little")
    given = type(value).__name__ if isinstance(value, Buffer | TensorMap) or wanted is not None else repr(value)
    raise TypeError(f"argument {parameter.name}: want a {parameter.kind}, got {given}")


def _integer_bits(parameter: Parameter, value: int) -> int:
    limits = {"i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1), "bool": (0, 1)}
    low, high = limits[parameter.kind]
    if not low <= value <= high:
        raise ValueError(f"argument {parameter.name}: {value} is no {parameter.kind}")
    return value
