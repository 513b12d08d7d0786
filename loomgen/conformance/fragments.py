"""Operands of the matrix products as registers, by the lane maps of ``mma.cuh``, and what a product may err by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loomgen.conformance.inputs import hashed, integers

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

PRODUCTS = 256
"""Products in a case, one a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """An operand type: ``depth`` is the contracted extent, ``encode`` and ``decode`` go between float32 and bits."""

    name: str
    depth: int
    encode: Callable[[Floats], Array]
    decode: Callable[[Array], Floats]

    @property
    def per_register(self) -> int:
        return self.depth // 8


def _to_bf16(values: Floats) -> Array:
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def _from_bf16(bits: Array) -> Floats:
    values: Floats = (bits.astype(np.uint32) << 16).view(np.float32)
    return values


def _to_f16(values: Floats) -> Array:
    return values.astype(np.float16).view(np.uint16)


def _from_f16(bits: Array) -> Floats:
    return bits.view(np.float16).astype(np.float32)


def _to_tf32(values: Floats) -> Array:
    """The 13 bits that are ignored are not zero."""
    bits = values.view(np.uint32)
    ignored = hashed(bits.size, 31).reshape(bits.shape) & np.uint32(0x1FFF)
    return np.where(np.isfinite(values), bits & np.uint32(0xFFFFE000) | ignored, bits)


def _from_tf32(bits: Array) -> Floats:
    values: Floats = (bits & np.uint32(0xFFFFE000)).view(np.float32)
    return values


BF16 = Format(name="bf16", depth=16, encode=_to_bf16, decode=_from_bf16)
F16 = Format(name="f16", depth=16, encode=_to_f16, decode=_from_f16)
TF32 = Format(name="tf32", depth=8, encode=_to_tf32, decode=_from_tf32)

_LANE = np.arange(32)[:, None]
_G = _LANE // 4
_T = _LANE % 4


def _a_places(form: Format) -> tuple[Array, Array]:
    """Row and k of each element that a lane holds, [32, 4 registers * elements]."""
    register, element = np.divmod(np.arange(4 * form.per_register), form.per_register)
    return _G + 8 * (register % 2), _T * form.per_register + element + form.depth // 2 * (register // 2)


def _b_places(form: Format) -> tuple[Array, Array]:
    """k, [32, 2 registers * elements], and column, [32, 1]."""
    register, element = np.divmod(np.arange(2 * form.per_register), form.per_register)
    return _T * form.per_register + element + form.depth // 2 * register, _G


def _c_places() -> tuple[Array, Array]:
    """Row and column, [32, 4]."""
    register = np.arange(4)
    return _G + 8 * (register // 2), 2 * _T + register % 2


def to_registers(form: Format, a: Floats, b: Floats, c: Floats) -> tuple[Array, Array, Floats]:
    """a [n, 16, depth], b [n, depth, 8], c [n, 16, 8] as [n, 32, 4], [n, 32, 2] words and [n, 32, 4] floats."""
    a_rows, a_ks = _a_places(form)
    b_ks, b_cols = _b_places(form)
    c_rows, c_cols = _c_places()
    left = np.ascontiguousarray(form.encode(a)[:, a_rows, a_ks]).view(np.uint32)
    right = np.ascontiguousarray(form.encode(b)[:, b_ks, b_cols]).view(np.uint32)
    return left, right, np.ascontiguousarray(c[:, c_rows, c_cols])


def magnitudes(form: Format) -> Callable[[Sequence[Array], Array], Array]:
    """The scale of a product's error: sum |a * b| + |c| of each element, [n, 32, 4] float64."""

    def scale(inputs: Sequence[Array], host: Array) -> Array:
        left, right, c = inputs
        bits = np.dtype(f"u{4 // form.per_register}")
        n = left.shape[0]
        a = np.empty((n, 16, form.depth))
        b = np.empty((n, form.depth, 8))
        a_rows, a_ks = _a_places(form)
        b_ks, b_cols = _b_places(form)
        a[:, a_rows, a_ks] = np.abs(form.decode(left.view(bits)))
        b[:, b_ks, b_cols] = np.abs(form.decode(right.view(bits)))
        rows, cols = _c_places()
        sums: Array = (a @ b)[:, rows, cols] + np.abs(c.astype(np.float64))
        return sums

    return scale


def scaled_integers(form: Format, largest: int, a_power: int, b_power: int) -> tuple[Array, Array, Floats]:
    """a = i * 2^a_power, b = j * 2^b_power, c = k * 2^(a_power + b_power) with integers up to ``largest``: exactly
    summable."""
    a = _integers((PRODUCTS, 16, form.depth), 41, largest) * 2.0**a_power
    b = _integers((PRODUCTS, form.depth, 8), 42, largest) * 2.0**b_power
    c = _integers((PRODUCTS, 16, 8), 43, largest) * 2.0 ** (a_power + b_power)
    return to_registers(form, a.astype(np.float32), b.astype(np.float32), c.astype(np.float32))


def special_values(form: Format) -> tuple[Array, Array, Floats]:
    """Small integers with a few infinities and NaNs, so that some results are finite and some are not."""
    shapes = ((PRODUCTS, 16, form.depth), (PRODUCTS, form.depth, 8), (PRODUCTS, 16, 8))
    a, b, c = (_with_specials(_integers(shape, 51 + i, 3), 54 + i) for i, shape in enumerate(shapes))
    return to_registers(form, a, b, c)


def mixed_magnitudes(form: Format) -> tuple[Array, Array, Floats]:
    """Any fractions, exponents from -6 to 6 (c: to 12): roundings and cancellations."""
    a = _mixed((PRODUCTS, 16, form.depth), 61, 13)
    b = _mixed((PRODUCTS, form.depth, 8), 62, 13)
    c = _mixed((PRODUCTS, 16, 8), 63, 19)
    return to_registers(form, a, b, c)


def _integers(shape: tuple[int, ...], seed: int, largest: int) -> npt.NDArray[np.float64]:
    return integers(int(np.prod(shape)), seed, -largest, largest).reshape(shape).astype(np.float64)


def _with_specials(values: npt.NDArray[np.float64], seed: int) -> Floats:
    dice = hashed(values.size, seed).reshape(values.shape) % np.uint32(128)
    return np.select([dice == 0, dice == 1, dice == 2], [np.inf, -np.inf, np.nan], values).astype(np.float32)


def _mixed(shape: tuple[int, ...], seed: int, n_exponents: int) -> Floats:
    n = int(np.prod(shape))
    exponent = np.uint32(121) + hashed(n, seed + 10) % np.uint32(n_exponents)
    bits = hashed(n, seed) & np.uint32(0x807FFFFF) | exponent << np.uint32(23)
    values: Floats = bits.view(np.float32).reshape(shape)
    return values
