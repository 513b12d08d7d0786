"""Inputs, the same on every machine: made by integer arithmetic, not by a random generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]

_LOW_HALVES = np.array(
    [
        0,
        1,
        0x0FFF,
        0x1000,
        0x1001,
        0x1FFF,
        0x2000,
        0x3000,
        0x5555,
        0x7FFF,
        0x8000,
        0x8001,
        0x9000,
        0xAAAA,
        0xF000,
        0xFFFF,
    ],
    np.uint32,
)
"""Around the ties of conversions to tf32, f16 and bf16."""

_EDGES = np.array(
    [
        *(0x00000000, 0x00000001, 0x00000002, 0x00000FFF, 0x00400000, 0x007FFFFF, 0x00800000, 0x00800001),
        *(0x0C800000, 0x32FFFFFF, 0x33800000, 0x38800000, 0x3F000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001),
        *(0x3FC00000, 0x40000000, 0x40490FDB, 0x41200000, 0x477FE000, 0x477FF000, 0x4B7FFFFF, 0x4B800000),
        *(0x5F000000, 0x7E800000, 0x7F000000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF),
    ],
    np.uint32,
)
"""Zero, subnormals, powers of two and their neighbours, the largest floats, infinity and NaNs."""


def hashed(n: int, seed: int) -> Words:
    """``n`` well mixed words: a counter through multiplications and shifts."""
    x = (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x += np.uint64(seed * 0xD1B54A32D192ED03 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    words: Words = (x >> np.uint64(32)).astype(np.uint32)
    return words


def integers(n: int, seed: int, low: int, high: int) -> npt.NDArray[np.int64]:
    """``n`` numbers from ``low`` to ``high``, both included."""
    numbers: npt.NDArray[np.int64] = low + (hashed(n, seed) % np.uint32(high - low + 1)).astype(np.int64)
    return numbers


def distinct(n: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """``n`` elements of an unsigned ``dtype`` with as many distinct values as it has, in no visible order."""
    factor = 0x9E3779B97F4A7C15 | 1  # odd, so that the products are distinct
    products = (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(factor)
    elements: npt.NDArray[Any] = products.astype(dtype)
    return elements


def sweep() -> Floats:
    """2^20 floats: every upper half, so every sign and exponent, with 16 lower halves each."""
    upper = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    floats: Floats = (upper[:, None] | _LOW_HALVES[None, :]).reshape(-1).view(np.float32)
    return floats


def exponents() -> Floats:
    """2^20 evenly spaced arguments from -330 to 130: where 2^x and e^x are finite, and far below."""
    steps = np.arange(1 << 20, dtype=np.float64)
    return (-330.0 + steps * (460.0 / (1 << 20))).astype(np.float32)


def around_one() -> Floats:
    """2^20 floats from 1/4 to 4, evenly spaced in their bits."""
    bits = np.uint32(0x3E800000) + np.arange(1 << 20, dtype=np.uint32) * np.uint32(32)
    floats: Floats = bits.view(np.float32)
    return floats


def halves() -> npt.NDArray[np.uint16]:
    """Every 16-bit pattern."""
    return np.arange(1 << 16, dtype=np.uint16)


def packed_halves() -> Words:
    """Every 16-bit pattern in the lower and, in another order, in the upper half."""
    lower = np.arange(1 << 16, dtype=np.uint32)
    words: Words = lower | (lower * np.uint32(40503) & np.uint32(0xFFFF)) << np.uint32(16)
    return words


def operands(count: int) -> tuple[Floats, ...]:
    """``count`` arrays of 2^18 floats: each edge with each other one first, then bits of any kind and, in the second
    half, exponents close to each other, so that roundings matter."""
    return tuple(_operand(position) for position in range(count))


def _operand(position: int) -> Floats:
    n = 1 << 18
    bits = hashed(n, 10 + position)
    exponent = np.uint32(122) + (hashed(n, 20 + position) & np.uint32(15))
    bits[n // 2 :] = (bits[n // 2 :] & np.uint32(0x807FFFFF)) | (exponent[n // 2 :] << np.uint32(23))
    edges = np.concatenate([_EDGES, _EDGES | np.uint32(0x80000000)])
    pairs = np.arange(edges.size**2)
    chosen = (pairs % edges.size, pairs // edges.size, (pairs * 29 + pairs // 97) % edges.size)[position]
    bits[: edges.size**2] = edges[chosen]
    return bits.view(np.float32)
