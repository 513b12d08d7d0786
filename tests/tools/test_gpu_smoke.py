"""The smoke run on a card runs each kernel of four stages, and says so where there is no card."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from loomgen.ops.dispatch import GATES, SLACK, TABLES
from loomgen.registry import load
from tools.gpu_smoke import DEFAULT, Case, cases, expected, inputs, kernels_of_cases, main, same, variants_agree
from tools.gpu_start import forward_kernels


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_103a"])
def test_of_the_kernels_of_a_forward_those_that_not_every_forward_has_are_not_run(arch: str) -> None:
    registry = load(arch)
    run = [kernel.name for kernel in kernels_of_cases(registry)]
    left = {kernel.stage for kernel in forward_kernels(registry) if kernel.name not in run}
    assert (len(run), len(set(run)), left) == (28, 28, {GATES, TABLES, SLACK})


def test_what_is_expected_is_finite_and_as_large_as_the_outputs() -> None:
    wanted = expected(inputs(DEFAULT))
    assert wanted["o"].shape == (344, 4, 128)
    assert wanted["ht"].shape == (5, 4, 128, 128)
    assert all(x.isfinite().all() and x.dtype is torch.float64 for x in wanted.values())


def test_one_bit_is_a_difference_and_equal_nans_are_none() -> None:
    x, y = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("nan")])
    assert same({"x": x}, {"x": y})
    y[0] = 1.0000001
    assert not same({"x": x}, {"x": y})


def test_a_variant_with_other_bits_is_told() -> None:
    alike: dict[Case, dict[str, torch.Tensor]] = {case: {"o": torch.zeros(2)} for case in cases()}
    assert variants_agree(alike)
    assert not variants_agree({**alike, list(alike)[1]: {"o": torch.ones(2)}})


def test_without_bindings_it_could_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    assert main(["--out", str(tmp_path / "out")]) == 2
    assert "pip install 'loomgen[cuda]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
