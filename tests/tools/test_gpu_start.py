"""The tool that times cold starts on a card, as far as it goes without one."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import pytest
import torch

from loomgen.errors import LoomgenError
from loomgen.ops.dispatch import ACTIVATIONS, HEAD_DIMS, RAW, STEPS, CallShape
from loomgen.ops.dispatch_backward import kernels_of_kind
from loomgen.registry import load
from loomgen.runtime.compilers import VARIABLE
from tools import gpu_start
from tools.gpu_start import compiling_with, first_calls, forward_kernels, timed_first_call


def test_the_kernels_of_a_forward_are_all_that_calls_of_any_kind_may_launch() -> None:
    registry = load("sm_90a")
    formats = product(HEAD_DIMS, ACTIVATIONS, STEPS, (None, torch.int32, torch.int64), (None, *RAW), (None, *RAW))
    wanted = {
        kernel.name
        for dim, activation, step, offsets, raw_gate, raw_step in formats
        for kernel in kernels_of_kind(
            registry,
            CallShape(
                n_sequences=1, value_heads=1, head_dim=dim, activation=activation, step=step, offsets=offsets,
                raw_gate=raw_gate, raw_step=raw_step,
            ),
            trains=False,
        )
    }  # fmt: skip
    found = [kernel.name for kernel in forward_kernels(registry)]
    assert set(found) == wanted and len(found) == len(wanted)


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
