"""The smoke run on a card runs what dispatch can choose, and says so where there is no card."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from loomgen.ops.dispatch import FAMILY, STAGES
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.kernels import DeviceKernels
from tests.runtime.fake_driver import FakeDriver
from tools.gpu_smoke import DEFAULT, Case, cases, expected, forward_kernels, inputs, main, same, variants_agree


@pytest.mark.parametrize("capability", [(9, 0), (10, 0), (10, 3)])
def test_every_kernel_of_the_forward_is_run(capability: tuple[int, int]) -> None:
    kernels = DeviceKernels(0, FakeDriver({}, {0: capability}), CubinStore())
    registered = [k.name for k in kernels.registry.kernels if k.family == FAMILY and k.stage in STAGES]
    assert sorted(kernel.name for kernel in forward_kernels(kernels)) == registered


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
