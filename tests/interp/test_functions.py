"""The fp32 functions against exact references, and bit for bit against the host bodies of the primitives."""

from __future__ import annotations

import shutil
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import loomgen
from loomgen.interp import functions

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinities and NaN are among the inputs

F32 = npt.NDArray[np.float32]


def f32(*values: float) -> F32:
    return np.array(values, dtype=np.float32)


def samples(n: int = 200_000) -> F32:
    """Random bit patterns: every exponent, both signs, subnormals, infinities and NaN."""
    bits = np.random.default_rng(3).integers(0, 2**32, n, dtype=np.uint32)
    return np.concatenate([bits.view(np.float32), f32(0, -0.0, np.inf, -np.inf, np.nan, 1, -149, -150, -151, 128)])


def assert_bits(actual: F32, expected: F32) -> None:
    """The same bits, or both NaN."""
    assert actual.dtype == expected.dtype == np.float32
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(actual), nan)
    np.testing.assert_array_equal(actual[~nan].view(np.uint32), expected[~nan].view(np.uint32))


def ulps(actual: F32, exact: npt.NDArray[np.float64]) -> float:
    """The largest distance to ``exact`` in units of the float32 nearest to it."""
    unit = np.spacing(np.abs(exact.astype(np.float32))).astype(np.float64)
    return float(np.max(np.abs(actual.astype(np.float64) - exact) / unit))


def test_exp2_is_within_an_ulp() -> None:
    x = np.linspace(-126, 127.99, 300_001, dtype=np.float32)
    assert ulps(functions.exp2(x), np.exp2(x.astype(np.float64))) <= 0.5001


def test_exp2_edges() -> None:
    x = f32(0, 1, -1, 127, 128, -126, -126.5, -149, -1e30, 1e30, np.inf, -np.inf)
    assert_bits(functions.exp2(x), f32(1, 2, 0.5, 2.0**127, np.inf, 2.0**-126, 0, 0, 0, np.inf, np.inf, 0))
    assert np.isnan(functions.exp2(f32(np.nan))).all()
    assert functions.exp2(np.asarray(np.float32(3))).shape == ()


def test_exp_rounds_its_argument_then_uses_exp2() -> None:
    x = np.linspace(-80, 80, 20_001, dtype=np.float32)
    assert_bits(functions.exp(x), functions.exp2(x * np.float32(1.4426950408889634)))
    np.testing.assert_allclose(functions.exp(x), np.exp(x.astype(np.float64)), rtol=1e-5)


def test_log() -> None:
    x = np.linspace(1e-3, 1000, 100_001, dtype=np.float32)
    assert ulps(functions.log2(x), np.log2(x.astype(np.float64))) <= 0.5001
    np.testing.assert_allclose(functions.log(x), np.log(x.astype(np.float64)), rtol=2e-7, atol=1e-12)
    edges = functions.log(f32(0, -0.0, 1, np.inf, 2.0**-149))
    assert_bits(edges[:4], f32(-np.inf, -np.inf, 0, np.inf))
    assert edges[4] == pytest.approx(-149 * np.log(2))
    assert np.isnan(functions.log(f32(-1, np.nan, -np.inf))).all()


def test_rsqrt_and_sigmoid() -> None:
    assert_bits(functions.rsqrt(f32(4, 0.25, 0, np.inf)), f32(0.5, 2, np.inf, 0))
    assert np.isnan(functions.rsqrt(f32(-1, np.nan))).all()
    assert_bits(functions.sigmoid(f32(0, 1000, -1000)), f32(0.5, 1, 0))


def nearest_f32(exact: Fraction) -> np.float32:
    """``exact`` rounded to nearest even, from the two float32 around a first guess."""
    guess = np.float32(float(exact))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(5)
    a, b, c = (rng.standard_normal(3000).astype(np.float32) for _ in range(3))
    c *= np.float32(2) ** rng.integers(-60, 60, c.size).astype(np.float32)
    # The sum lies just past the midpoint of two float32, nearer than a double can tell.
    a = np.append(a, f32(1 + 2.0**-12, 1 + 2.0**-12))
    b = np.append(b, f32(1 + 2.0**-12, -1 - 2.0**-12))
    c = np.append(c, f32(2.0**-60, -(2.0**-60)))
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    expected = np.array([nearest_f32(x) for x in exact], dtype=np.float32)
    assert_bits(functions.fma(a, b, c), expected)
    in_double = (a.astype(np.float64) * b + c).astype(np.float32)
    assert (in_double[-2:] != expected[-2:]).all()


def test_fma_broadcasts_and_passes_infinities() -> None:
    assert functions.fma(np.float32(2) * np.ones((2, 1), np.float32), f32(1, 2, 3), f32(1)).tolist() == [[3, 5, 7]] * 2
    assert_bits(functions.fma(f32(1, np.inf, np.inf), f32(1, 1, 0), f32(np.inf, 1, 1)), f32(np.inf, np.inf, np.nan))


def test_minimum_and_maximum_prefer_numbers_and_order_zeros() -> None:
    a, b = f32(1, np.nan, 2, 0, -0.0, np.nan), f32(2, 2, np.nan, -0.0, 0, np.nan)
    assert_bits(functions.minimum(a, b), f32(1, 2, 2, -0.0, -0.0, np.nan))
    assert_bits(functions.maximum(a, b), f32(2, 2, 2, 0, 0, np.nan))


def test_diagonal_inverse_is_forward_substitution() -> None:
    blocks = np.random.default_rng(9).standard_normal((3, 16, 16)).astype(np.float32)
    expected = np.zeros_like(blocks)
    for r in range(3):
        for c in range(16):
            for i in range(16):
                x = np.float32(i == c)
                for m in range(i):
                    x = x - blocks[r, i, m] * expected[r, m, c]
                expected[r, i, c] = x
    actual = functions.diagonal_inverse_16(blocks)
    assert_bits(actual, expected)
    lower = np.eye(16) + np.tril(blocks.astype(np.float64), -1)
    np.testing.assert_allclose(actual @ lower, np.broadcast_to(np.eye(16), blocks.shape), atol=1e-2)


HOST_PROGRAM = """
#include <cstdio>
#define LOOM_HOST
#include "loom/math.cuh"
int main() {
    float x[3];
    while (std::fread(x, sizeof(float), 3, stdin) == 3) {
        const float y[] = {loom::exp2_approx(x[0]), loom::exp_approx(x[0]), loom::log_approx(x[0]),
                           loom::rsqrt_approx(x[0]), loom::fma_rn(x[0], x[1], x[2]),
                           loom::min_f32(x[0], x[1]), loom::max_f32(x[0], x[1])};
        std::fwrite(y, sizeof(float), 7, stdout);
    }
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_bits_equal_the_host_bodies(tmp_path: Path) -> None:
    include = Path(loomgen.__file__).parent / "include"
    (tmp_path / "host.cpp").write_text(HOST_PROGRAM)
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", f"-I{include}"]
    subprocess.run(["g++", *flags, "host.cpp", "-o", "host"], cwd=tmp_path, check=True)
    x = samples()
    a, b, c = x, np.roll(x, 1), np.roll(x, 2)
    sent = np.stack([a, b, c], axis=1).tobytes()
    received = subprocess.run([tmp_path / "host"], input=sent, capture_output=True, check=True).stdout
    host = np.frombuffer(received, dtype=np.float32).reshape(-1, 7)
    with np.errstate(all="ignore"):
        ours = (
            functions.exp2(a),
            functions.exp(a),
            functions.log(a),
            functions.rsqrt(a),
            functions.fma(a, b, c),
            functions.minimum(a, b),
            functions.maximum(a, b),
        )
    for column, values in enumerate(ours):
        assert_bits(values, host[:, column])
