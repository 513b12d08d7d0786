"""``loomgen doctor``: what this machine has, what is missing and how to get it."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata

import typer

from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.options import JsonOption
from loomgen.cli.output import show
from loomgen.toolchain.find import NVCC, TOOLS, MissingTool, Tool, find_tool, tool_version

_OLDEST_NVCC = (12, 9)
"""The first release that compiles for sm_103a."""

_PACKAGES = ("torch", "numpy", "pydantic", "jinja2", "networkx", "pyyaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that loomgen uses. ``status`` is ok, missing, too old, or none for what is not needed."""

    what: str
    status: str
    needed_for: str
    version: str = ""
    where: str = ""
    how_to_get: str = ""

    @property
    def is_fine(self) -> bool:
        return self.status in ("ok", "none")


def doctor(as_json: JsonOption = False) -> None:
    """Check what loomgen needs: Python, packages, g++, nvcc, ninja, the disassembler; a GPU is optional.

    Exits 3 when something needed is missing or too old.
    """
    findings = [
        _python(),
        *(_package(name) for name in _PACKAGES),
        *(_tool(tool) for tool in TOOLS),
        _gpu(),
    ]
    columns = {
        "what": "what",
        "status": "status",
        "version": "version",
        "where": "where",
        "needed_for": "needed for",
        "how_to_get": "how to get it",
    }
    show([asdict(finding) for finding in findings], columns, as_json=as_json)
    if not all(finding.is_fine for finding in findings):
        raise typer.Exit(ExitCode.MISSING_TOOL)


def _python() -> Finding:
    return Finding(
        what="python",
        status="ok" if sys.version_info >= (3, 10) else "too old",
        version=platform.python_version(),
        needed_for="everything",
        how_to_get="" if sys.version_info >= (3, 10) else "install Python 3.10 or newer",
    )


def _package(name: str) -> Finding:
    """A Python package, looked up without importing it."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(what=name, status="missing", needed_for="everything", how_to_get=f"pip install {name}")
    return Finding(what=name, status="ok", version=version, needed_for="everything")


def _tool(tool: Tool) -> Finding:
    try:
        path = find_tool(tool)
    except MissingTool:
        return Finding(what=tool.name, status="missing", needed_for=tool.purpose, how_to_get=tool.hint)
    version = tool_version(path)
    old = tool is NVCC and nvcc_is_too_old(version)
    return Finding(
        what=tool.name,
        status="too old" if old else "ok",
        version=version,
        where=str(path),
        needed_for=tool.purpose,
        how_to_get=tool.hint if old else "",
    )


def nvcc_is_too_old(version: str) -> bool:
    """Whether nvcc's version, such as ``12.4.131``, comes before the oldest that knows every target."""
    release = re.match(r"(\d+)\.(\d+)", version)
    return release is not None and (int(release[1]), int(release[2])) < _OLDEST_NVCC


def _gpu() -> Finding:
    names = _gpu_names()
    return Finding(
        what="GPU",
        status="ok" if names else "none",
        version=", ".join(names),
        needed_for="running kernels on a device; the emulator needs none",
    )


def _gpu_names() -> tuple[str, ...]:
    """The names of NVIDIA GPUs, as the driver's own tool lists them."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip()) if done.returncode == 0 else ()
