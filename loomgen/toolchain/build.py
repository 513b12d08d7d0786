"""Compiling the exported sources to cubins with nvcc, through ninja."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loomgen.registry import KernelEntry, Registry
from loomgen.target import Target
from loomgen.toolchain.errors import BuildFailed
from loomgen.toolchain.find import GXX, NINJA, NVCC, find_tool

COMMON_FLAGS = ("-std=c++17", "-O3", "-fmad=false", "-Xptxas=-v,-warn-spills")
"""Products and sums are never fused behind a spec's back; ptxas reports what each kernel takes."""

_PROGRESS = re.compile(r"^\[(\d+)/(\d+)\] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTools:
    """What a build runs. Without a ``host_compiler`` nvcc takes the g++ that it finds itself."""

    nvcc: Path
    ninja: Path
    host_compiler: Path | None = None

    @classmethod
    def find(cls) -> BuildTools:
        """Those of this machine; raises MissingTool.

        g++ is looked for first, and always: of one that is missing nvcc says neither what it is for nor how to get it.
        """
        gxx = find_tool(GXX)
        chosen = GXX.variable in os.environ
        return cls(nvcc=find_tool(NVCC), ninja=find_tool(NINJA), host_compiler=gxx if chosen else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CubinJob:
    """A kernel to compile for a target. ptxas's report is kept in ``log``, beside the cubin."""

    kernel: KernelEntry
    target: Target
    source: Path
    cubin: Path

    @property
    def log(self) -> Path:
        return self.cubin.with_suffix(".log")


def cubin_jobs(registry: Registry, target: Target, root: Path) -> tuple[CubinJob, ...]:
    """One job for each kernel of the registry; cubins go to ``build/cubin/<arch>/`` below ``root``."""
    folder = root / "build" / "cubin" / target.name
    return tuple(
        CubinJob(kernel=kernel, target=target, source=root / kernel.source.path, cubin=folder / f"{kernel.name}.cubin")
        for kernel in registry.kernels
    )


def ninja_text(jobs: Sequence[CubinJob], tools: BuildTools, include_dir: Path) -> str:
    """The ninja file for ``jobs``. A log belongs to its cubin: if either is gone, both are made again."""
    host = () if tools.host_compiler is None else (f"-ccbin={_shell(tools.host_compiler)}",)
    flags = " ".join((*COMMON_FLAGS, *host, f"-I{_shell(include_dir)}"))
    head = (
        "ninja_required_version = 1.10\n"
        "\n"
        "rule cubin\n"
        f"  command = {_shell(tools.nvcc)} {flags} $gencode --cubin -MD -MF $out.d -o $out $in > $log 2>&1"
        " || { cat $log; exit 1; }\n"
        "  depfile = $out.d\n"
        "  deps = gcc\n"
        "  description = $target $kernel\n"
    )
    return head + "".join(_build_statement(job) for job in jobs)


def _build_statement(job: CubinJob) -> str:
    return (
        "\n"
        f"build {_escape(job.cubin)}: cubin {_escape(job.source)}\n"
        f"  gencode = {job.target.gencode}\n"
        f"  log = {_shell(job.log)}\n"
        f"  target = {job.target.name}\n"
        f"  kernel = {job.kernel.name}\n"
    )


def build_cubins(
    jobs: Sequence[CubinJob],
    *,
    folder: Path,
    include: Path,
    tools: BuildTools,
    n_parallel: int | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Compile what is out of date, with ninja's files in ``folder`` and the headers of ``include``.

    ``on_progress`` is called with the steps done and the steps there are. Raises :class:`BuildFailed` with what nvcc
    printed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _forget_lost_logs(jobs)
    file = folder / "cubin.ninja"
    file.write_text(ninja_text(jobs, tools, include), encoding="utf-8")
    parallel = () if n_parallel is None else ("-j", str(n_parallel))
    command = [str(tools.ninja), "-C", str(folder), "-f", file.name, *parallel]
    environ = {**os.environ, "NINJA_STATUS": "[%f/%t] "}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ) as process:
        assert process.stdout is not None
        output = _follow(process.stdout, on_progress)
    if process.returncode != 0:
        raise BuildFailed(output)


def _forget_lost_logs(jobs: Iterable[CubinJob]) -> None:
    for job in jobs:
        if not job.log.exists():
            job.cubin.unlink(missing_ok=True)


def _follow(lines: Iterable[str], on_progress: Callable[[int, int], None]) -> str:
    """Report ninja's progress lines and return the others."""
    rest = []
    for line in lines:
        progress = _PROGRESS.match(line)
        if progress is None:
            rest.append(line)
        else:
            on_progress(int(progress[1]), int(progress[2]))
    return "".join(rest).strip()


def _escape(path: Path) -> str:
    """A path in a ninja build statement."""
    return str(path).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def _shell(path: Path) -> str:
    """A path in a command that ninja hands to the shell."""
    quoted = "'" + str(path).replace("'", "'\\''") + "'"
    return quoted.replace("$", "$$")
