"""compute-sanitizer over a few small calls, each tool in a process of its own: ``python -m loomgen.bench.sanitizer
PASS ...`` is what those processes run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from loomgen.bench.gpu import DEVICE
from loomgen.bench.small_calls import small_calls
from loomgen.bench.workloads import Pass
from loomgen.errors import LoomgenError
from loomgen.toolchain.find import Tool, find_tool

SanitizerTool = Literal["memcheck", "racecheck", "synccheck"]
TOOLS: tuple[SanitizerTool, ...] = get_args(SanitizerTool)

COMPUTE_SANITIZER = Tool(
    name="compute-sanitizer",
    variable="LOOMGEN_COMPUTE_SANITIZER",
    purpose="checking kernels on a GPU",
    hint="install the CUDA toolkit",
)

ERROR_BOUND = 1e-2
"""Relative L2: a run that computes something else shows nothing of the kernels. Accuracy proper is checked
elsewhere."""

_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) ")
_ERROR_EXIT_CODE = "9"
_TAIL_CHARACTERS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a tool said. ``errors`` is its own count, None where it printed none; ``output`` is empty when ``ok``."""

    tool: SanitizerTool
    ok: bool
    errors: int | None
    output: str


def find_sanitizer() -> Path:
    """Raises MissingTool."""
    return find_tool(COMPUTE_SANITIZER)


def sanitize(
    sanitizer: Path, deadline: float, passes: Sequence[Pass], tools: Sequence[SanitizerTool] = TOOLS
) -> list[Finding]:
    """Runs ``tools`` side by side over the small calls of ``passes``; one that is not done at ``deadline`` of the
    monotonic clock has failed."""
    running = [(tool, _start(sanitizer, tool, passes)) for tool in tools]
    return [_finish(tool, process, deadline) for tool, process in running]


def _start(sanitizer: Path, tool: SanitizerTool, passes: Sequence[Pass]) -> subprocess.Popen[str]:
    """Each tensor is an allocation of its own there, so that a step past its end is seen."""
    command = [str(sanitizer), "--tool", tool, "--error-exitcode", _ERROR_EXIT_CODE]
    if tool == "memcheck":
        # cuda.bindings asks the driver for every function it knows of, newer ones too, which is no error of a kernel
        command += ["--report-api-errors", "no"]
    command += ["--target-processes", "application-only", sys.executable, "-m", "loomgen.bench.sanitizer"]
    command += [what.value for what in passes]
    environ = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    return subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def _finish(tool: SanitizerTool, process: subprocess.Popen[str], deadline: float) -> Finding:
    try:
        output, _ = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the tool and the program under it
        output, _ = process.communicate()
        output += "\nstopped: no time left"
    return finding_of(tool, process.returncode, output)


def finding_of(tool: SanitizerTool, returncode: int, output: str) -> Finding:
    """Clean only if the tool says that it counted no error and the program under it succeeded."""
    summary = _SUMMARY.search(output)
    errors = None if summary is None else int(summary[1])
    ok = returncode == 0 and errors == 0
    return Finding(tool=tool, ok=ok, errors=errors, output="" if ok else output[-_TAIL_CHARACTERS:])


def main(words: Sequence[str]) -> int:
    """The small calls of the passes that ``words`` name on the first GPU; 1 where one of them is wrong."""
    errors = {f"{what.value} {call}": call.error(DEVICE, what) for what in map(Pass, words) for call in small_calls()}
    for call, error in errors.items():
        print(f"{error:.2e} {call}")
    return 0 if all(error <= ERROR_BOUND for error in errors.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except LoomgenError as error:
        sys.exit(str(error))
