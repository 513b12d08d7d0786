"""The inputs hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from loomgen.conformance import inputs
from loomgen.conformance.fragments import (
    BF16,
    F16,
    TF32,
    Format,
    magnitudes,
    scaled_integers,
    special_values,
    to_registers,
)

FORMATS = pytest.mark.parametrize("form", [BF16, F16, TF32], ids=lambda form: form.name)


def test_the_sweep_has_every_sign_and_exponent_subnormals_infinities_and_nans() -> None:
    values = inputs.sweep()
    assert values.size == 1 << 20
    assert np.unique(values.view(np.uint32) >> 23).size == 512
    assert np.isnan(values).any()
    assert np.isinf(values).any()
    assert (np.abs(values[values != 0]) < 2.0**-126).any()


def test_exponents_go_far_below_what_is_representable() -> None:
    values = inputs.exponents()
    assert (values[0], values[-1]) == (-330.0, pytest.approx(130.0, abs=1e-3))


def test_distinct_elements_are_distinct() -> None:
    assert np.unique(inputs.distinct(65536, np.uint16)).size == 65536


def test_hashed_words_are_fixed() -> None:
    assert inputs.hashed(3, 1).tolist() == inputs.hashed(4, 1)[:3].tolist()
    assert inputs.hashed(3, 1).tolist() != inputs.hashed(3, 2).tolist()


@FORMATS
def test_registers_hold_the_matrices_by_the_lane_maps(form: Format) -> None:
    """Lane 13 has g = 3 and t = 1."""
    a = np.arange(16 * form.depth, dtype=np.float32).reshape(1, 16, form.depth) % 256
    b = a.reshape(1, form.depth, 16)[:, :, :8]
    c = np.arange(128, dtype=np.float32).reshape(1, 16, 8)
    left, right, sums = to_registers(form, a, np.ascontiguousarray(b), c)
    bits = np.dtype("u4") if form is TF32 else np.dtype("u2")
    held_a = form.decode(left[0, 13].copy().view(bits)).tolist()
    held_b = form.decode(right[0, 13].copy().view(bits)).tolist()
    if form is TF32:
        assert held_a == [a[0, 3, 1], a[0, 11, 1], a[0, 3, 5], a[0, 11, 5]]
        assert held_b == [b[0, 1, 3], b[0, 5, 3]]
    else:
        expected = [(3, 2), (3, 3), (11, 2), (11, 3), (3, 10), (3, 11), (11, 10), (11, 11)]
        assert held_a == [a[0, row, k] for row, k in expected]
        assert held_b == [b[0, k, 3] for k in (2, 3, 10, 11)]
    assert sums[0, 13].tolist() == [c[0, 3, 2], c[0, 3, 3], c[0, 11, 2], c[0, 11, 3]]


@FORMATS
def test_magnitudes_are_sums_of_absolute_products(form: Format) -> None:
    a = np.full((1, 16, form.depth), -2.0, np.float32)
    b = np.full((1, form.depth, 8), 3.0, np.float32)
    c = np.full((1, 16, 8), -5.0, np.float32)
    registers = to_registers(form, a, b, c)
    np.testing.assert_array_equal(magnitudes(form)(registers, registers[2]), np.full((1, 32, 4), 6.0 * form.depth + 5))


@FORMATS
def test_subnormal_operands_survive_their_encoding(form: Format) -> None:
    power = {"bf16": -133, "f16": -24, "tf32": -136}[form.name]
    left, _, _ = scaled_integers(form, 127, power, 0)
    bits = np.dtype("u4") if form is TF32 else np.dtype("u2")
    values = form.decode(left.view(bits)).astype(np.float64) * 2.0**-power
    assert np.array_equal(values, np.rint(values))
    assert np.unique(values).size == 255


@FORMATS
def test_special_values_have_infinities_and_nans_but_not_everywhere(form: Format) -> None:
    _, _, c = special_values(form)
    assert np.isnan(c).any()
    assert np.isinf(c).any()
    assert np.isfinite(c).mean() > 0.9
