"""The parameters of a kernel in memory, laid out as its ABI wants, packed once and patched for each launch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loomgen.registry import ArgumentEntry

_POINTER = ctypes.c_uint64
_SCALARS: dict[str, Any] = {
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "bool": ctypes.c_bool,
}
_WORD_BYTES = 8

Number = int | float | bool

_NO_MAPS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A parameter's place in the block: ``offset`` in bytes, a multiple of its size."""

    name: str
    c_type: Any
    offset: int


def fields(arguments: Sequence[ArgumentEntry]) -> tuple[tuple[Field, ...], int]:
    """Where each parameter lies, each at a multiple of its own size, and the bytes that all take. Tensor maps lie by
    themselves (`tensor_maps`).
    """
    found, end = [], 0
    for argument in (argument for argument in arguments if argument.kind != "tensor_map"):
        c_type = _POINTER if is_pointer(argument) else _SCALARS[argument.dtype]
        size = ctypes.sizeof(c_type)
        offset = -(-end // size) * size
        found.append(Field(name=argument.name, c_type=c_type, offset=offset))
        end = offset + size
    return tuple(found), end


def is_pointer(argument: ArgumentEntry) -> bool:
    return argument.kind in ("tensor", "table")


class ParameterBlock:
    """The parameters of one kernel. ``address`` is that of the array that a launch takes: a pointer to each.

    ``slots[name].value`` reads and writes a parameter in place; pointers are addresses, 0 for null. ``maps`` are where
    the tensor maps lie.
    """

    __slots__ = ("_memory", "_names", "_pointers", "address", "n_bytes", "slots")

    def __init__(
        self, arguments: Sequence[ArgumentEntry], values: Mapping[str, Number], maps: Mapping[str, int] = _NO_MAPS
    ) -> None:
        places, n_bytes = fields(arguments)
        self._memory = (_POINTER * max(1, -(-n_bytes // _WORD_BYTES)))()
        start = ctypes.addressof(self._memory)
        self.n_bytes = n_bytes
        self.slots: dict[str, Any] = {
            place.name: place.c_type.from_buffer(self._memory, place.offset) for place in places
        }
        for name, slot in self.slots.items():
            slot.value = values[name]
        self._names = tuple(argument.name for argument in arguments)
        addresses = {place.name: start + place.offset for place in places} | dict(maps)
        self._pointers = (ctypes.c_void_p * max(1, len(arguments)))(*(addresses[name] for name in self._names))
        self.address = ctypes.addressof(self._pointers)

    def read_from(self, name: str, address: int) -> None:
        """Launches read the parameter ``name`` at ``address`` from now on, and no longer in the block."""
        self._pointers[self._names.index(name)] = address

    def __bytes__(self) -> bytes:
        return bytes(self._memory)[: self.n_bytes]
