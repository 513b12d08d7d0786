"""The C interface of csrc/launch.hpp, as ctypes sees it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

N_PRIMITIVES = 31


class TensorC(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("contents", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("access", ctypes.c_int32),
        ("parameter", ctypes.c_int32),
    ]


class MapC(ctypes.Structure):
    _fields_ = [
        ("tensor", ctypes.c_int32),
        ("parameter", ctypes.c_int32),
        ("rows", ctypes.c_int64),
        ("cols", ctypes.c_int64),
        ("element_bytes", ctypes.c_int32),
        ("box_rows", ctypes.c_int32),
        ("box_cols", ctypes.c_int32),
        ("swizzle", ctypes.c_int32),
    ]


class LaunchC(ctypes.Structure):
    _fields_ = [
        ("invoke", ctypes.c_void_p),
        ("tensors", ctypes.POINTER(TensorC)),
        ("n_tensors", ctypes.c_int32),
        ("n_maps", ctypes.c_int32),
        ("maps", ctypes.POINTER(MapC)),
        ("n_parameters", ctypes.c_int32),
        ("parameters", ctypes.POINTER(ctypes.c_int64)),
        ("grid", ctypes.c_int64),
        ("block", ctypes.c_int32),
        ("shared_bytes", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("completion", ctypes.c_int32),
        ("disabled_line", ctypes.c_int32),
    ]


class FaultC(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("thread", ctypes.c_int32),
        ("block", ctypes.c_int64),
        ("line", ctypes.c_int32),
        ("message", ctypes.c_char * 1024),
    ]


class LineC(ctypes.Structure):
    _fields_ = [
        ("line", ctypes.c_int32),
        ("accesses", ctypes.c_int64),
        ("conflicts", ctypes.c_int64),
        ("calls", ctypes.c_int64 * N_PRIMITIVES),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The entry points of a library of kernels; ``invokers`` are addresses that a launch takes, by function name."""

    launch: Callable[..., ctypes._Pointer[LineC]]
    free: Callable[[ctypes._Pointer[LineC]], None]
    primitives: tuple[str, ...]
    invokers: Mapping[str, int]


def load_library(path: Path, invokers: Iterable[str]) -> Library:
    """Loads kernels built by :mod:`loomgen.emulator.build`."""
    library = ctypes.CDLL(str(path))
    launch = library.loom_launch
    launch.argtypes = [
        ctypes.POINTER(LaunchC),
        ctypes.POINTER(FaultC),
        ctypes.POINTER(ctypes.c_int64),
        ctypes.POINTER(ctypes.c_int64),
    ]
    launch.restype = ctypes.POINTER(LineC)
    free = library.loom_free
    free.argtypes = [ctypes.POINTER(LineC)]
    free.restype = None
    name = library.loom_primitive
    name.argtypes = [ctypes.c_int32]
    name.restype = ctypes.c_char_p
    return Library(
        launch=launch,
        free=free,
        primitives=tuple(name(i).decode() for i in range(N_PRIMITIVES)),
        invokers={invoker: _address(library[invoker]) for invoker in invokers},
    )


def _address(function: ctypes._NamedFuncPointer) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
