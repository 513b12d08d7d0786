"""compute-sanitizer over a few small forwards, each tool in a process of its own: ``python -m loomgen.bench.sanitizer``
is what those processes run."""

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

import torch

from loomgen.errors import LoomgenError
from loomgen.golden import chunk_gated_delta_rule as golden
from loomgen.ops import chunk_gated_delta_rule
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
"""Relative L2: a run that computes something else shows nothing of the kernels. Final states and accuracy proper are
checked elsewhere."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallForward:
    """A call that is small enough for a tool that runs every instruction a hundred times slower."""

    lengths: tuple[int, ...]
    head_dim: int
    activation: torch.dtype
    step: torch.dtype = torch.float32

    def run(self, device: torch.device) -> float:
        """Relative L2 error of ``o``, all inputs being used: initial state, gates, final state."""
        random = torch.Generator().manual_seed(3)
        key_heads, value_heads, n_tokens = 2, 4, sum(self.lengths)

        def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
            return torch.randn(*shape, generator=random).to(dtype)

        q, k = (normal(1, n_tokens, key_heads, self.head_dim, dtype=self.activation) for _ in range(2))
        v = normal(1, n_tokens, value_heads, self.head_dim, dtype=self.activation)
        g = -normal(1, n_tokens, value_heads).abs() / 8
        beta = normal(1, n_tokens, value_heads).sigmoid().to(self.step)
        state = normal(len(self.lengths), value_heads, self.head_dim, self.head_dim) / 8
        offsets = torch.tensor([0, *self.lengths]).cumsum(0)
        o, _ = chunk_gated_delta_rule(
            q.to(device), k.to(device), v.to(device), g.to(device), beta.to(device),
            initial_state=state.to(device), output_final_state=True, use_qk_l2norm_in_kernel=True,
            cu_seqlens=offsets.to(device), cu_seqlens_cpu=offsets,
        )  # fmt: skip
        wanted, _ = golden(q, k, v, g, beta, initial_state=state, cu_seqlens=offsets, use_qk_l2norm=True)
        return float((o.cpu().double() - wanted).norm() / wanted.norm())


def small_forwards() -> tuple[SmallForward, ...]:
    """Between them every stage and, through the number of sequences, every variant of the state scan."""
    few, some, many = (0, 15, 64, 65, 130), (1, 70, 1) * 3, (3, 66, 1, 64) * 10
    bf16, f16 = torch.bfloat16, torch.float16
    return (
        SmallForward(lengths=few, head_dim=128, activation=bf16),
        SmallForward(lengths=some, head_dim=128, activation=bf16),
        SmallForward(lengths=many, head_dim=128, activation=bf16),
        SmallForward(lengths=few, head_dim=128, activation=f16, step=bf16),
        SmallForward(lengths=few, head_dim=64, activation=bf16),
    )


def find_sanitizer() -> Path:
    """Raises MissingTool."""
    return find_tool(COMPUTE_SANITIZER)


def sanitize(
    sanitizer: Path, deadline: float, tools: Sequence[SanitizerTool] = get_args(SanitizerTool)
) -> list[Finding]:
    """Runs ``tools`` side by side; one that is not done at ``deadline`` of the monotonic clock has failed."""
    running = [(tool, _start(sanitizer, tool)) for tool in tools]
    return [_finish(tool, process, deadline) for tool, process in running]


def _start(sanitizer: Path, tool: SanitizerTool) -> subprocess.Popen[str]:
    """Each tensor is an allocation of its own there, so that a step past its end is seen."""
    command = [str(sanitizer), "--tool", tool, "--error-exitcode", _ERROR_EXIT_CODE]
    if tool == "memcheck":
        # cuda.bindings asks the driver for every function it knows of, newer ones too, which is no error of a kernel
        command += ["--report-api-errors", "no"]
    command += ["--target-processes", "application-only", sys.executable, "-m", "loomgen.bench.sanitizer"]
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


def main() -> int:
    """The small forwards on the first GPU; 1 where one of them is wrong."""
    device = torch.device("cuda", 0)
    errors = {str(forward): forward.run(device) for forward in small_forwards()}
    for forward, error in errors.items():
        print(f"{error:.2e} {forward}")
    return 0 if all(error <= ERROR_BOUND for error in errors.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LoomgenError as error:
        sys.exit(str(error))
