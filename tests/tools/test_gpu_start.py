"""The tool that times cold starts on a card, as far as it goes without one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loomgen.errors import LoomgenError
from loomgen.ops import dispatch_backward
from loomgen.ops.dispatch import FAMILY, RECOMPUTE
from loomgen.registry import load
from loomgen.runtime.compilers import VARIABLE
from tools import gpu_start
from tools.gpu_start import compiling_with, first_calls, forward_kernels, timed_first_call


def test_every_kernel_is_built_but_what_no_forward_launches() -> None:
    registry = load("sm_90a")
    left = [kernel for kernel in registry.kernels if kernel not in forward_kernels(registry)]
    assert {kernel.stage for kernel in left if kernel.family == FAMILY} == {
        RECOMPUTE,
        *dispatch_backward.STAGES,
        *dispatch_backward.GATE_GRADIENTS,
    }


def test_a_compiler_is_chosen_inside_the_context_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "nvcc")
    with compiling_with("nvrtc"):
        assert os.environ[VARIABLE] == "nvrtc"
    assert os.environ[VARIABLE] == "nvcc"
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ValueError), compiling_with("nvrtc"):
        raise ValueError
    assert VARIABLE not in os.environ


def test_the_slowest_of_the_first_calls_is_held_to_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seconds = iter([0.3, 1.1, 0.4])
    monkeypatch.setattr(gpu_start, "timed_first_call", lambda bundle: next(seconds))
    row = first_calls(tmp_path)
    assert row.measured == {"median_seconds": 0.4, "largest_seconds": 1.1, "processes": 3}
    assert not row.ok


def test_a_first_call_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(LoomgenError, match="the first call with bundled cubins failed:"):
        timed_first_call(tmp_path)
