"""``loomgen doctor``: what this machine has, what is missing and how to get it."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from typing import Annotated

import typer

from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.options import JsonOption
from loomgen.cli.output import show
from loomgen.toolchain.find import (
    GXX,
    NVCC,
    TOOLS,
    MissingTool,
    OutdatedTool,
    Tool,
    find_tool,
    is_older,
    newest_gxx,
    tool_version,
)

_PACKAGES = ("torch", "numpy", "pydantic", "jinja2", "networkx", "pyyaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that loomgen uses. ``status`` is ok, missing, too old, too new, or none for what is not needed."""

    what: str
    status: str
    needed_for: str
    version: str = ""
    where: str = ""
    how_to_get: str = ""

    @property
    def is_fine(self) -> bool:
        return self.status in ("ok", "none")


def doctor(
    what: Annotated[list[str] | None, typer.Argument(help="Only these, such as nvcc (default: all).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Check what loomgen needs: Python, packages, g++, nvcc, ninja, the disassembler; a GPU is optional.

    Exits 3 when something needed is missing or of a version that will not do.
    """
    findings = [_check(name)() for name in what or _CHECKS]
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
    except OutdatedTool as old:
        found = Finding(what=tool.name, status="too old", needed_for=tool.purpose, how_to_get=tool.hint)
        return replace(found, version=old.version, where=str(old.path))
    except MissingTool:
        return Finding(what=tool.name, status="missing", needed_for=tool.purpose, how_to_get=tool.hint)
    return Finding(what=tool.name, status="ok", version=tool_version(path), where=str(path), needed_for=tool.purpose)


def _gxx() -> Finding:
    """g++, which must not be newer than what nvcc accepts either."""
    found = _tool(GXX)
    newest = _newest_gxx()
    if not found.is_fine or newest is None or is_older(found.version, (newest + 1,)):
        return found
    hint = f"install g++ {newest} and name it in {GXX.variable}: nvcc accepts no newer one"
    return replace(found, status="too new", how_to_get=hint)


def _newest_gxx() -> int | None:
    try:
        return newest_gxx(tool_version(find_tool(NVCC)))
    except MissingTool:
        return None


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


_CHECKS: Mapping[str, Callable[[], Finding]] = {
    "python": _python,
    **{name: partial(_package, name) for name in _PACKAGES},
    **{tool.name: partial(_tool, tool) for tool in TOOLS},
    GXX.name: _gxx,
    "GPU": _gpu,
}
"""Every check by what it looks at, in the order of the table."""


def _check(name: str) -> Callable[[], Finding]:
    if name not in _CHECKS:
        raise typer.BadParameter(f"{name!r} is not checked, want one of {', '.join(_CHECKS)}")
    return _CHECKS[name]
