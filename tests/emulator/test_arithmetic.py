"""The host's arithmetic: against numpy, and against the interpreter's transcription, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from loomgen.emulator import Buffer
from loomgen.interp import functions
from tests.emulator.support import kernel_file, to_tf32

F32 = npt.NDArray[np.float32]
BITS = npt.NDArray[np.uint32]

SPECIAL = np.array(
    [
        *[0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 1.5, 1.0009766, 1.00048828125],
        *[128.0, -149.0, -149.5, -150.0, -151.0, 88.72, 3e38, 1e-45, -1e-45, 2.0**-126],
        *[65504.0, 65519.0, 65520.0, 2.0**-14, 2.0**-24, 2.0**-25],
    ],
    np.float32,
)


def inputs() -> tuple[F32, F32, F32]:
    """Special values, random bit patterns (every exponent) and moderate numbers."""
    rng = np.random.default_rng(5)
    patterns = rng.integers(0, 2**32, 2000, dtype=np.uint32).view(np.float32)
    a = np.concatenate([SPECIAL, patterns, rng.uniform(-150, 130, 2000).astype(np.float32)])
    b, c = rng.permutation(a), rng.permutation(a)
    b[: SPECIAL.size] = -SPECIAL  # zeros and infinities of both signs meet
    return a, b, c


def run(f: int) -> tuple[tuple[F32, F32, F32], F32]:
    a, b, c = inputs()
    y = np.zeros(a.shape, np.uint32)
    arguments = {"a": Buffer(a, "in"), "b": Buffer(b, "in"), "c": Buffer(c, "in"), "y": Buffer(y, "out")}
    kernel = kernel_file("arithmetic.cu", "arithmetic", "*a *b *c *y i:n i:f")
    kernel.launch({**arguments, "n": a.size, "f": f}, grid=1, block=32, shared_bytes=0)
    return (a, b, c), y.view(np.float32)


def same_bits(x: F32, y: F32) -> None:
    """NaN equals NaN, whatever its payload."""
    a, b = (np.where(np.isnan(v), np.uint32(0x7FFFFFFF), v.view(np.uint32)) for v in (x, y))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("f", "reference"),
    [(0, functions.exp2), (1, functions.exp), (2, functions.log), (3, functions.rsqrt), (4, np.sqrt), (9, np.abs)],
)
def test_functions_of_one_argument(f: int, reference: Callable[[F32], F32]) -> None:
    (a, _, _), y = run(f)
    with np.errstate(all="ignore"):
        same_bits(y, reference(a))


@pytest.mark.parametrize(("f", "reference"), [(6, np.divide), (7, functions.minimum), (8, functions.maximum)])
def test_functions_of_two_arguments(f: int, reference: Callable[[F32, F32], F32]) -> None:
    (a, b, _), y = run(f)
    with np.errstate(all="ignore"):
        same_bits(y, reference(a, b))


def test_fma_rounds_once_and_a_product_and_sum_twice() -> None:
    with np.errstate(all="ignore"):
        (a, b, c), y = run(5)
        same_bits(y, functions.fma(a, b, c))
        (a, b, c), y = run(15)
        same_bits(y, a * b + c)


def test_exp2_is_within_half_an_ulp_and_a_hair() -> None:
    (a, _, _), y = run(0)
    for x, result in zip(a, y, strict=True):
        if -126 <= x < 128:
            exact = math.pow(2.0, float(x))
            assert abs(float(result) - exact) <= 0.5001 * float(np.spacing(np.float32(exact)))


def test_log_is_within_an_ulp_and_a_half() -> None:
    (a, _, _), y = run(2)
    for x, result in zip(a, y, strict=True):
        if np.isfinite(x) and x > 0:
            exact = math.log(float(x))
            assert abs(float(result) - exact) <= 1.5 * float(np.spacing(np.float32(abs(exact))))


def to_bf16(a: F32) -> F32:
    bits = a.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return np.where(np.isnan(a), np.float32(np.nan), rounded.astype(np.uint32).view(np.float32)).astype(np.float32)


def to_f16(a: F32) -> F32:
    return a.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize(("f", "reference"), [(10, to_bf16), (11, to_f16), (12, to_tf32)])
def test_conversions(f: int, reference: Callable[[F32], F32]) -> None:
    (a, _, _), y = run(f)
    with np.errstate(all="ignore"):
        same_bits(y, reference(a))


@pytest.mark.parametrize(("f", "reference"), [(13, to_bf16), (14, to_f16)])
def test_pairs_keep_their_order(f: int, reference: Callable[[F32], F32]) -> None:
    (a, b, _), y = run(f)
    with np.errstate(all="ignore"):
        same_bits(y, reference(a) - reference(b))
