"""What makes cubins on this machine: nvcc through ninja, or NVRTC, which every torch for CUDA brings along."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from loomgen.errors import LoomgenError
from loomgen.toolchain.build import BuildTools, CubinJob, build_cubins
from loomgen.toolchain.errors import BuildFailed
from loomgen.toolchain.find import MissingTool, tool_version

VARIABLE = "LOOMGEN_COMPILER"
"""Names the compiler, ``nvcc`` or ``nvrtc``; without it nvcc is taken, or NVRTC where nvcc cannot be run."""

NVRTC_FLAGS = ("--std=c++17", "--fmad=false", "-default-device")
"""As nvcc's; a function without a qualifier is the device's, since there is no other side."""

Progress = Callable[[int, int], None]


class NoCompiler(LoomgenError):
    """Nothing here can make a cubin; the message says how to get what can."""


class Compiler(Protocol):
    """Compiles kernels for one target at a time."""

    @property
    def version(self) -> str:
        """What tells its cubins from those of another compiler."""

    def compile(
        self, jobs: Sequence[CubinJob], *, folder: Path, include: Path, n_parallel: int | None, on_progress: Progress
    ) -> None:
        """Writes the cubin of each job; ``folder`` is scratch. Raises BuildFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvccCompiler:
    """nvcc, as many at a time as ninja chooses."""

    tools: BuildTools

    @property
    def version(self) -> str:
        return tool_version(self.tools.nvcc)

    def compile(
        self, jobs: Sequence[CubinJob], *, folder: Path, include: Path, n_parallel: int | None, on_progress: Progress
    ) -> None:
        build_cubins(
            jobs, folder=folder, include=include, tools=self.tools, n_parallel=n_parallel, on_progress=on_progress
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NvrtcCompiler:
    """NVRTC through ``cuda.bindings.nvrtc``, given as ``api``; a thread for each core."""

    api: Any

    @property
    def version(self) -> str:
        major, minor = self._call("nvrtcVersion")
        return f"nvrtc {major}.{minor}"

    def compile(
        self, jobs: Sequence[CubinJob], *, folder: Path, include: Path, n_parallel: int | None, on_progress: Progress
    ) -> None:
        with ThreadPoolExecutor(n_parallel or os.cpu_count()) as pool:
            waiting = {pool.submit(self._cubin, job, include): job for job in jobs}
            for done, future in enumerate(as_completed(waiting), start=1):
                waiting[future].cubin.write_bytes(future.result())
                on_progress(done, len(jobs))

    def _cubin(self, job: CubinJob, include: Path) -> bytes:
        program = self._call("nvrtcCreateProgram", job.source.read_bytes(), str(job.source).encode(), 0, [], [])
        try:
            flags = (f"--gpu-architecture={job.target.name}", *NVRTC_FLAGS, f"-I{include}")
            options = [flag.encode() for flag in flags]
            (status,) = self.api.nvrtcCompileProgram(program, len(options), options)
            if status != self.api.nvrtcResult.NVRTC_SUCCESS:
                raise BuildFailed(f"{status.name}\n{self._text(program)}".strip())
            cubin: bytes = b" " * self._call("nvrtcGetCUBINSize", program)
            self._call("nvrtcGetCUBIN", program, cubin)
            return cubin
        finally:
            self._call("nvrtcDestroyProgram", program)

    def _text(self, program: Any) -> str:
        log: bytes = b" " * self._call("nvrtcGetProgramLogSize", program)
        self._call("nvrtcGetProgramLog", program, log)
        return log.rstrip(b"\0").decode(errors="replace")

    def _call(self, name: str, *arguments: Any) -> Any:
        """The results of a call that succeeds; raises BuildFailed where it does not."""
        status, *results = getattr(self.api, name)(*arguments)
        if status != self.api.nvrtcResult.NVRTC_SUCCESS:
            raise BuildFailed(f"{name}: {status.name}")
        return results[0] if len(results) == 1 else results


def find_compiler(environ: Mapping[str, str] = os.environ) -> Compiler:
    """The compiler of this machine, by :data:`VARIABLE`; raises MissingTool and :class:`NoCompiler`."""
    match environ.get(VARIABLE, ""):
        case "nvcc":
            return NvccCompiler(tools=BuildTools.find())
        case "nvrtc":
            return _nvrtc()
        case "":
            return _first_found()
        case other:
            raise NoCompiler(f"{VARIABLE}: {other!r}, expected nvcc or nvrtc")


def _first_found() -> Compiler:
    try:
        return NvccCompiler(tools=BuildTools.find())
    except MissingTool as missing:
        try:
            return _nvrtc()
        except NoCompiler as error:
            raise NoCompiler(f"{missing}; {error}") from error


def _nvrtc() -> NvrtcCompiler:
    try:
        compiler = NvrtcCompiler(api=import_module("cuda.bindings.nvrtc"))
        _load_builtins()
        compiler.version  # noqa: B018  finds the library, or says that there is none
    except (ImportError, RuntimeError, OSError) as error:
        raise NoCompiler(
            f"NVRTC cannot be loaded ({str(error).splitlines()[0]}): pip install 'loomgen[cuda]' nvidia-cuda-nvrtc"
        ) from error
    return compiler


def _load_builtins() -> None:
    """NVRTC opens a second library by its bare name, which the system's loader does not find in a wheel."""
    with suppress(ImportError):
        found = import_module("cuda.pathfinder").load_nvidia_dynamic_lib("nvrtc").abs_path
        for path in sorted(Path(found).parent.glob("libnvrtc-builtins.so*")):
            ctypes.CDLL(str(path))
