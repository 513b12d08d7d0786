"""Launches: arguments in, results and a report out."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from loomgen.emulator.abi import FaultC, LaunchC, Library, LineC, TensorC, load_library
from loomgen.emulator.build import KernelSource, Parameter, build_kernels
from loomgen.emulator.report import BankUse, EmulatorFault, EmulatorReport, FaultKind, statement_above

Access = Literal["in", "out", "inout"]

_ACCESS: dict[Access, int] = {"in": 0, "out": 1, "inout": 2}
_COMPLETION = {"late": 0, "random": 1}
_WARP = 32
_MAX_THREADS = 1024


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
class EmulatorOptions:
    """How the emulator makes the choices that the hardware leaves open.

    ``seed``: the order of blocks and threads. ``completion``: when asynchronous copies arrive, as late as allowed or
    at random. ``disabled_line``: the synchronisation on that source line (barriers, waits, commits) does nothing.
    """

    seed: int = 0
    completion: Literal["late", "random"] = "late"
    disabled_line: int | None = None


Value = Buffer | int | float | bool

_DEFAULTS = EmulatorOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedKernel:
    """A kernel compiled for the host. Launches of one kernel run one at a time."""

    symbol: str
    source: str
    parameters: tuple[Parameter, ...]
    library: Library = field(repr=False)
    invoker: int = field(repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def launch(
        self,
        arguments: Mapping[str, Value],
        *,
        grid: int,
        block: int,
        shared_bytes: int,
        options: EmulatorOptions = _DEFAULTS,
    ) -> EmulatorReport:
        """Runs ``grid`` blocks of ``block`` threads with ``shared_bytes`` of dynamic shared memory each.

        Raises :class:`EmulatorFault` for what the kernel does wrong, ValueError or TypeError for wrong arguments.
        """
        _check_launch(self.parameters, arguments, grid, block, shared_bytes)
        tensors = _tensors(self.parameters, arguments)
        values = [_scalar_bits(p, arguments[p.name]) for p in self.parameters]
        request = LaunchC(
            invoke=self.invoker,
            tensors=(TensorC * len(tensors))(*tensors.values()),
            n_tensors=len(tensors),
            n_parameters=len(values),
            parameters=(ctypes.c_int64 * len(values))(*values),
            grid=grid,
            block=block,
            shared_bytes=shared_bytes,
            seed=options.seed,
            completion=_COMPLETION[options.completion],
            disabled_line=-1 if options.disabled_line is None else options.disabled_line,
        )
        fault = FaultC()
        unwritten = (ctypes.c_int64 * len(tensors))()
        with self.lock:
            lines = self._call(request, fault, unwritten)
        if fault.kind != 0:
            raise self._fault(fault)
        return _report(lines, self.library.primitives, dict(zip(tensors, unwritten, strict=True)))

    def _call(self, request: LaunchC, fault: FaultC, unwritten: ctypes.Array[ctypes.c_int64]) -> list[LineC]:
        n_lines = ctypes.c_int64()
        lines = self.library.launch(ctypes.byref(request), ctypes.byref(fault), unwritten, ctypes.byref(n_lines))
        copies = [LineC.from_buffer_copy(lines[i]) for i in range(n_lines.value)]
        self.library.free(lines)
        return copies

    def _fault(self, fault: FaultC) -> EmulatorFault:
        return EmulatorFault(
            FaultKind(fault.kind),
            kernel=self.symbol,
            block=fault.block,
            thread=fault.thread,
            line=fault.line,
            statement=statement_above(self.source, fault.line),
            message=fault.message.decode(errors="replace"),
        )


def compile_kernel(
    source: Path, symbol: str, parameters: Sequence[Parameter], include_dirs: Sequence[Path], cache_dir: Path
) -> EmulatedKernel:
    """Compiles the kernel ``symbol`` of the ``.cu`` file ``source`` for the host.

    ``include_dirs`` hold the headers (``loom/loom.cuh``), ``cache_dir`` what was built before. Raises
    :class:`EmulatorBuildError` when g++ refuses the kernel, MissingTool without g++.
    """
    kernel = KernelSource(path=source, symbol=symbol, parameters=tuple(parameters))
    return compile_kernels([kernel], include_dirs, cache_dir)[0]


def compile_kernels(
    kernels: Sequence[KernelSource], include_dirs: Sequence[Path], cache_dir: Path, library_dir: Path | None = None
) -> tuple[EmulatedKernel, ...]:
    """The kernels, compiled together into one library: cheaper than one by one where there are many small ones.

    The library goes to ``library_dir`` (the cache if None), which may be deleted once this returns. Raises
    :class:`EmulatorBuildError` when g++ refuses one of them, MissingTool without g++.
    """
    path = build_kernels(kernels, include_dirs, cache_dir, library_dir)
    library = load_library(path, [kernel.invoker for kernel in kernels])
    return tuple(
        EmulatedKernel(
            symbol=kernel.symbol,
            source=kernel.path.read_text(),
            parameters=kernel.parameters,
            library=library,
            invoker=library.invokers[kernel.invoker],
        )
        for kernel in kernels
    )


def _check_launch(
    parameters: Sequence[Parameter], arguments: Mapping[str, Value], grid: int, block: int, shared_bytes: int
) -> None:
    expected = [p.name for p in parameters]
    if sorted(expected) != sorted(arguments):
        raise ValueError(f"arguments {sorted(arguments)}: want {sorted(expected)}")
    if not 0 <= grid < 2**31:
        raise ValueError(f"grid {grid}: want 0 .. 2^31 - 1 blocks")
    if block % _WARP != 0 or not 0 < block <= _MAX_THREADS:
        raise ValueError(f"block {block}: want whole warps of {_WARP} threads, at most {_MAX_THREADS}")
    if shared_bytes < 0:
        raise ValueError(f"shared_bytes {shared_bytes}: want 0 or more")


def _tensors(parameters: Sequence[Parameter], arguments: Mapping[str, Value]) -> dict[str, TensorC]:
    """The tensors that were passed, by name."""
    tensors = {}
    for position, parameter in enumerate(parameters):
        value = arguments[parameter.name]
        if not isinstance(value, Buffer) or value.array is None:
            continue
        _check_array(parameter.name, value)
        tensors[parameter.name] = TensorC(
            name=parameter.name.encode(),
            contents=value.array.ctypes.data,
            bytes=value.array.nbytes,
            access=_ACCESS[value.access],
            parameter=position,
        )
    return tensors


def _check_array(name: str, buffer: Buffer) -> None:
    assert buffer.array is not None
    if not buffer.array.flags.c_contiguous:
        raise ValueError(f"argument {name}: want a C-contiguous array, pass the one it is a view of")
    if buffer.access != "in" and not buffer.array.flags.writeable:
        raise ValueError(f"argument {name}: an output array may not be read-only")


def _scalar_bits(parameter: Parameter, value: Value) -> int:
    """The value's bytes, as a little-endian integer of 64 bits; 0 for a pointer."""
    if isinstance(value, Buffer) != (parameter.kind == "pointer"):
        raise TypeError(f"argument {parameter.name}: want a {parameter.kind}, got {type(value).__name__}")
    match value:
        case Buffer():
            return 0
        case bool() | int() | np.integer() if parameter.kind in ("i32", "i64", "bool"):
            return _integer_bits(parameter, int(value))
        case float() | int() | np.floating() if parameter.kind == "f32":
            return int.from_bytes(struct.pack("<f", float(value)), "little")
    raise TypeError(f"argument {parameter.name}: want a {parameter.kind}, got {value!r}")


def _integer_bits(parameter: Parameter, value: int) -> int:
    limits = {"i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1), "bool": (0, 1)}
    low, high = limits[parameter.kind]
    if not low <= value <= high:
        raise ValueError(f"argument {parameter.name}: {value} is no {parameter.kind}")
    return value


def _report(lines: Sequence[LineC], primitives: Sequence[str], unwritten: Mapping[str, int]) -> EmulatorReport:
    calls = {line.line: {p: n for p, n in zip(primitives, line.calls, strict=True) if n} for line in lines}
    banks = {
        line.line: BankUse(accesses=line.accesses, conflicts=line.conflicts) for line in lines if line.accesses > 0
    }
    left = {name: n_bytes for name, n_bytes in unwritten.items() if n_bytes > 0}
    return EmulatorReport(banks=banks, primitives=calls, unwritten=left)
