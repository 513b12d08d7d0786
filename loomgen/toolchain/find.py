"""Finding the programs that loomgen runs, wherever they were installed from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loomgen.errors import LoomgenError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program: the variable that overrides where it is, what it is for, how to get it."""

    name: str
    variable: str
    purpose: str
    hint: str


NVCC = Tool(
    name="nvcc",
    variable="LOOMGEN_NVCC",
    purpose="compiling kernels to cubins",
    hint="pip install 'loomgen[nvcc]', or install the CUDA toolkit, 12.9 or newer",
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
)
TOOLS = (GXX, NVCC, NINJA, NVDISASM)


class MissingTool(LoomgenError):
    """A program that is not there; the message says how to get it."""

    def __init__(self, tool: Tool, reason: str) -> None:
        self.tool = tool
        super().__init__(f"{tool.name} {reason} (needed for {tool.purpose}); {tool.hint}, or set {tool.variable}")


def find_tool(
    tool: Tool, environ: Mapping[str, str] = os.environ, packages: Path | None = None, scripts: Path | None = None
) -> Path:
    """The program's path: ``tool.variable``, then PATH, then this Python's scripts and NVIDIA's packages, then
    the toolkit's usual folder.

    ``packages`` and ``scripts`` default to this Python's folders. Raises :class:`MissingTool`.
    """
    named = environ.get(tool.variable)
    if named is not None:
        found = shutil.which(named)
        if found is None:
            raise MissingTool(tool, f"is not {named!r}, which {tool.variable} says")
        return Path(found)
    folders = [environ.get("PATH", ""), *map(str, _folders(packages, scripts))]
    found = shutil.which(tool.name, path=os.pathsep.join(folders))
    if found is None:
        raise MissingTool(tool, "was not found")
    return Path(found)


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
