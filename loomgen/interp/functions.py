"""The functions of element expressions in fp32, bit for bit as the host bodies of `loom/math.cuh` compute them.

Arguments and results are float32 arrays. exp2 and log2 are fixed sequences of double operations, rounded once, so
that the same bits come out wherever IEEE arithmetic is at hand; `docs/numerics.md` writes the sequences down.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loomgen.interp.tiles import Array

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

_EXP2_COEFFICIENTS = tuple(
    float.fromhex(text)
    for text in (
        "0x1.0000000000000p+0",
        "0x1.62e42fefa39efp-1",
        "0x1.ebfbdff82c58fp-3",
        "0x1.c6b08d704a0c0p-5",
        "0x1.3b2ab6fba4e77p-7",
        "0x1.5d87fe78a6731p-10",
        "0x1.430912f86c787p-13",
        "0x1.ffcbfc588b0c7p-17",
        "0x1.62c0223a5c824p-20",
        "0x1.b5253d395e7c4p-24",
        "0x1.e4cf5158b8ecap-28",
        "0x1.e8cac7351bb25p-32",
        "0x1.c3bd650fc2986p-36",
        "0x1.816193166d0f9p-40",
    )
)
"""ln(2)^k / k! rounded to double, k = 0 .. 13."""

_LOG2_TERMS = 13
_SQRT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_LOG2_E_F32 = np.float32(_LOG2_E)
_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal
_LN_2_F32 = np.float32(float.fromhex("0x1.62e43p-1"))


def exp2(x: F32) -> F32:
    """2^x: n = rint(x), f = x - n; a Horner polynomial of degree 13 in f, in double; times 2^n, rounded once.
    Results below the smallest normal number are 0."""
    # Every x past these bounds gives 0 or infinity, as they do, and NaN passes through the clip.
    wide = np.clip(np.asarray(x, dtype=np.float64), -128.0, 129.0)
    n = np.rint(wide)
    f = wide - n
    p: F64 = np.full_like(f, _EXP2_COEFFICIENTS[-1])
    for coefficient in reversed(_EXP2_COEFFICIENTS[:-1]):
        p = p * f + coefficient
    exponents = np.nan_to_num(n).astype(np.int32)
    y = np.ldexp(p, exponents).astype(np.float32)
    return np.where(y < _SMALLEST_NORMAL, np.float32(0), y)


def log2(x: F32) -> F32:
    """log2(x): x = m 2^e with m in [sqrt(1/2), sqrt(2)), s = (m-1)/(m+1); e + 2 atanh(s) log2(e), in double."""
    m, e = np.frexp(np.asarray(x, dtype=np.float64))
    low = m < _SQRT_HALF
    m = np.where(low, m * 2.0, m)
    e = np.where(low, e - 1, e)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p: F64 = np.full_like(z, 1.0 / (2 * _LOG2_TERMS - 1))
    for k in reversed(range(_LOG2_TERMS - 1)):
        p = p * z + 1.0 / (2 * k + 1)
    finite = (e + ((2.0 * s) * p) * _LOG2_E).astype(np.float32)
    return np.select([x == 0, x < 0, x == np.inf], [np.float32(-np.inf), np.float32(np.nan), x], finite)


def exp(x: F32) -> F32:
    """e^x as 2^(x log2(e)), the product rounded to fp32."""
    return exp2(x * _LOG2_E_F32)


def log(x: F32) -> F32:
    """ln(x) as log2(x) ln(2); log2 and the product are each rounded to fp32."""
    result: F32 = log2(x) * _LN_2_F32
    return result


def rsqrt(x: F32) -> F32:
    """x^(-1/2): 1 / sqrt(x) in double, rounded once."""
    result: F32 = (1.0 / np.sqrt(np.asarray(x, dtype=np.float64))).astype(np.float32)
    return result


def sigmoid(x: F32) -> F32:
    """1 / (1 + e^-x), each operation rounded to fp32."""
    one = np.float32(1.0)
    result: F32 = one / (one + exp(-x))
    return result


def fma(a: F32, b: F32, c: F32) -> F32:
    """a b + c, rounded once.

    The product is exact in double; its sum with ``c`` is rounded to odd there (the last bit is set when anything was
    lost), after which rounding to fp32 is correct: 53 bits are at least two more than 24.
    """
    product = np.asarray(a, dtype=np.float64) * np.asarray(b, dtype=np.float64)
    addend = np.asarray(c, dtype=np.float64)
    total = np.atleast_1d(product + addend)
    virtual = total - product
    lost = (product - (total - virtual)) + (addend - virtual)
    bits = total.view(np.int64)
    away_from_zero = (lost > 0) == (total > 0)
    even = (bits & 1) == 0
    adjust = np.isfinite(lost) & (lost != 0) & even
    odd = np.where(adjust, bits + np.where(away_from_zero, 1, -1), bits).view(np.float64)
    return odd.astype(np.float32).reshape(np.broadcast_shapes(product.shape, addend.shape))


def minimum(a: F32, b: F32) -> F32:
    """The smaller operand; a number wins over NaN, and -0 is below +0."""
    return np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))


def maximum(a: F32, b: F32) -> F32:
    """The larger operand; a number wins over NaN, and +0 is above -0."""
    return np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))


def largest(x: Array) -> Array:
    """The maximum along the last axis, as :func:`maximum` takes it of two; of any floating type."""
    found = np.fmax.reduce(x, axis=-1)
    has_plus_zero = np.any((x == 0) & ~np.signbit(x), axis=-1)
    return np.asarray(np.where(found == 0, np.where(has_plus_zero, 0.0, -0.0).astype(x.dtype), found))


def diagonal_inverse_16(block: F32) -> F32:
    """(I + L)^-1 of the strictly lower part L of each ``block`` [.., 16, 16]; what lies elsewhere is ignored.

    Column c by forward substitution: x_i = (i == c) - sum over m < i of L_im x_m, in ascending m, each product and
    each difference rounded to fp32.
    """
    x = np.zeros_like(block)
    for i in range(16):
        row = np.broadcast_to(np.eye(16, dtype=np.float32)[i], x[..., i, :].shape)
        for m in range(i):
            row = row - block[..., i, m, None] * x[..., m, :]
        x[..., i, :] = row
    return x
