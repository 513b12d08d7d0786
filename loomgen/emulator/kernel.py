"""Launches: arguments in, results and a report out."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from loomgen.emulator.abi import FaultC, LaunchC, Library, LineC, MapC, TensorC, load_library
from loomgen.emulator.arguments import Value, maps_of, scalar_bits, tensors_of
from loomgen.emulator.build import KernelSource, Parameter, build_kernels
from loomgen.emulator.report import BankUse, EmulatorFault, EmulatorReport, FaultKind, statement_above

_COMPLETION = {"late": 0, "random": 1}
_WARP = 32
_MAX_THREADS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorOptions:
    """How the emulator makes the choices that the hardware leaves open.

    ``seed``: the order of blocks and threads. ``completion``: when asynchronous copies arrive, as late as allowed or
    at random. ``disabled_line``: the synchronisation on that source line (barriers, arrivals, waits, commits, fences)
    does nothing.
    """

    seed: int = 0
    completion: Literal["late", "random"] = "late"
    disabled_line: int | None = None


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
        values = [scalar_bits(p, arguments[p.name]) for p in self.parameters]
        tensors = tensors_of(self.parameters, arguments)
        maps = maps_of(self.parameters, arguments, tensors)
        request = LaunchC(
            invoke=self.invoker,
            tensors=(TensorC * len(tensors))(*tensors.values()),
            n_tensors=len(tensors),
            n_maps=len(maps),
            maps=(MapC * len(maps))(*maps),
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


def compile_kernels(
    kernels: Sequence[KernelSource], include_dirs: Sequence[Path], cache_dir: Path, library_dir: Path | None = None
) -> tuple[EmulatedKernel, ...]:
    """The kernels, compiled together into one library: cheaper than one by one where there are many small ones.

    ``include_dirs`` hold the headers (``loom/loom.cuh``), ``cache_dir`` what was built before. The library goes to
    ``library_dir`` (the cache if None), which may be deleted once this returns. Raises :class:`EmulatorBuildError` when
    g++ refuses one of them, MissingTool without g++.
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


def _report(lines: Sequence[LineC], primitives: Sequence[str], unwritten: Mapping[str, int]) -> EmulatorReport:
    calls = {line.line: {p: n for p, n in zip(primitives, line.calls, strict=True) if n} for line in lines}
    banks = {
        line.line: BankUse(accesses=line.accesses, conflicts=line.conflicts) for line in lines if line.accesses > 0
    }
    left = {name: n_bytes for name, n_bytes in unwritten.items() if n_bytes > 0}
    return EmulatorReport(banks=banks, primitives=calls, unwritten=left)
