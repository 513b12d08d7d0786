"""Finding the programs that loomgen runs, wherever they were installed from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loomgen.errors import MissingRequirement


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program: the variable that overrides where it is, what it is for, how to get it, and the oldest version that
    will do (empty: any)."""

    name: str
    variable: str
    purpose: str
    hint: str
    oldest: tuple[int, ...] = ()


NVCC = Tool(
    name="nvcc",
    variable="LOOMGEN_NVCC",
    purpose="compiling kernels to cubins",
    hint="pip install 'loomgen[nvcc]', or install the CUDA toolkit, 12.9 or newer",
    oldest=(12, 9),  # the first release that compiles for sm_103a
)
NVDISASM = Tool(
    name="nvdisasm",
    variable="LOOMGEN_NVDISASM",
    purpose="counting instructions",
    hint="pip install nvidia-cuda-nvdisasm",
)
NINJA = Tool(name="ninja", variable="LOOMGEN_NINJA", purpose="running builds", hint="pip install ninja")
GXX = Tool(
    name="g++",
    variable="LOOMGEN_CXX",
    purpose="the emulator, and nvcc's host pass",
    hint="apt-get install g++, or your system's equivalent",
    oldest=(9,),  # the first release whose C++17 is not called experimental
)
TOOLS = (GXX, NVCC, NINJA, NVDISASM)

_NEWEST_GXX: Mapping[tuple[int, ...], int] = {(12, 9): 14, (13, 0): 15}
"""The newest major version of g++ that a release of nvcc accepts: ``crt/host_config.h`` of each."""


def newest_gxx(nvcc_version: str) -> int | None:
    """The newest major version of g++ that nvcc accepts; None where that is not known."""
    return _NEWEST_GXX.get(_numbers(nvcc_version)[:2])


class MissingTool(MissingRequirement):
    """A program that is not there; the message says how to get it."""

    def __init__(self, tool: Tool, reason: str) -> None:
        self.tool = tool
        super().__init__(f"{tool.name} {reason} (needed for {tool.purpose}); {tool.hint}, or set {tool.variable}")


class OutdatedTool(MissingTool):
    """A program that is there, but older than what will do."""

    def __init__(self, tool: Tool, path: Path, version: str) -> None:
        self.path, self.version = path, version
        super().__init__(tool, f"{version} at {path} is older than {'.'.join(map(str, tool.oldest))}")


def find_tool(
    tool: Tool, environ: Mapping[str, str] = os.environ, packages: Path | None = None, scripts: Path | None = None
) -> Path:
    """The program's path: ``tool.variable``, or else the first that is not too old on PATH, among this Python's
    scripts, in NVIDIA's packages, in the toolkit's usual folder.

    ``packages`` and ``scripts`` default to this Python's folders. Raises :class:`MissingTool`, :class:`OutdatedTool`
    where all there are is older than ``tool.oldest``.
    """
    named = environ.get(tool.variable)
    if named is not None:
        found = shutil.which(named)
        if found is None:
            raise MissingTool(tool, f"is not {named!r}, which {tool.variable} says")
        return _first_recent(tool, [Path(found)])
    folders = [*environ.get("PATH", "").split(os.pathsep), *map(str, _folders(packages, scripts))]
    candidates = [Path(path) for folder in folders if (path := shutil.which(tool.name, path=folder)) is not None]
    if not candidates:
        raise MissingTool(tool, "was not found")
    return _first_recent(tool, candidates)


def _first_recent(tool: Tool, candidates: Sequence[Path]) -> Path:
    """The first that is not too old; a program that does not tell its version is taken at its word."""
    if not tool.oldest:
        return candidates[0]
    for path in candidates:
        if not is_older(tool_version(path), tool.oldest):
            return path
    raise OutdatedTool(tool, candidates[0], tool_version(candidates[0]))


def _folders(packages: Path | None, scripts: Path | None) -> list[Path]:
    """Where wheels and the toolkit put programs: NVIDIA's wheels use ``nvidia/cu<major>/bin``."""
    packages = Path(sysconfig.get_path("purelib")) if packages is None else packages
    scripts = Path(sysconfig.get_path("scripts")) if scripts is None else scripts
    wheels = sorted((packages / "nvidia").glob("cu[0-9]*/bin"), reverse=True)
    return [scripts, *wheels, Path("/usr/local/cuda/bin")]


def tool_version(path: Path) -> str:
    """The program's version, such as ``13.0.88``, as it prints it itself; ``unknown`` when it does not."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return parse_version(done.stdout)


def parse_version(text: str) -> str:
    """The version in a program's version text: the last dotted number of the line that speaks of a release, or of
    the first line."""
    lines = text.splitlines()
    line = next((line for line in lines if "release" in line), lines[0] if lines else "")
    numbers = re.findall(r"\d+(?:\.\d+)+", line)
    return numbers[-1] if numbers else "unknown"


def is_older(version: str, than: tuple[int, ...]) -> bool:
    """Whether a version such as ``12.4.131`` comes before ``than``; an unknown one does not."""
    return version != "unknown" and _numbers(version) < than


def _numbers(version: str) -> tuple[int, ...]:
    return () if version == "unknown" else tuple(map(int, version.split(".")))
