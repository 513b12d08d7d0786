"""Rounding to each format against torch, and where one rounding and two would differ."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from loomgen.interp.rounding import round_to
from loomgen.interp.tiles import Array
from loomgen.ir.types import DType

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinities and NaN are among the inputs

SEED = 7


def around(values: torch.Tensor) -> Array:
    """Finite ``values`` as float32, their float32 neighbours and the midpoints between successive ones."""
    x = np.unique(values.float().numpy()[np.isfinite(values.float().numpy())])
    middle = ((x[1:].astype(np.float64) + x[:-1]) / 2).astype(np.float32)
    x = np.concatenate([x, middle])
    return np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])


@pytest.mark.parametrize(("dtype", "torch_dtype"), [(DType.BF16, torch.bfloat16), (DType.F16, torch.float16)])
def test_halves_equal_torch_around_every_value(dtype: DType, torch_dtype: torch.dtype) -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch_dtype)
    x = around(every)
    expected = torch.from_numpy(x).to(torch_dtype).double().numpy()
    np.testing.assert_array_equal(round_to(x, dtype), expected)


def test_f32_equals_numpy() -> None:
    rng = np.random.default_rng(SEED)
    x = rng.standard_normal(10_000) * 2.0 ** rng.integers(-160, 130, 10_000)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(round_to(x, DType.F32), x.astype(np.float32).astype(np.float64))


def test_tf32_rounds_halves_away_from_zero() -> None:
    unit = 2.0**-10
    x = np.array([1 + unit / 2, -(1 + unit / 2), 1 + unit / 2 - 2.0**-23, 1 + 3 * unit / 2, 2.0**-137, -(2.0**-137)])
    expected = [1 + unit, -(1 + unit), 1, 1 + 2 * unit, 2.0**-136, -(2.0**-136)]
    np.testing.assert_array_equal(round_to(x, DType.TF32), expected)


def test_tf32_equals_integer_arithmetic_on_the_bits() -> None:
    bits = np.random.default_rng(SEED).integers(0, 2**32, 50_000, dtype=np.uint32)
    bits = bits[(bits >> 23) & 0xFF != 0xFF]
    expected = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    np.testing.assert_array_equal(round_to(bits.view(np.float32), DType.TF32), expected)


def test_float64_is_rounded_once() -> None:
    """By way of float32 the last bit would be lost first, and the tie then go to even."""
    assert round_to(np.array(1 + 2.0**-8 + 2.0**-40), DType.BF16) == 1 + 2.0**-7
    assert round_to(np.array(1 + 2.0**-11 - 2.0**-40), DType.TF32) == 1


@pytest.mark.parametrize("dtype", [DType.F32, DType.TF32, DType.BF16, DType.F16])
def test_what_is_not_finite(dtype: DType) -> None:
    x = np.array([np.inf, -np.inf, 1e300, -1e300, 0.0, -0.0, 1e-300])
    rounded = round_to(x, dtype)
    np.testing.assert_array_equal(rounded, [np.inf, -np.inf, np.inf, -np.inf, 0, 0, 0])
    assert np.signbit(rounded).tolist() == [False, True, False, True, False, True, False]
    assert np.isnan(round_to(np.array(np.nan), dtype))
