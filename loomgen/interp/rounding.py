"""Rounding to the element types, from float64 or float32, once and correctly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loomgen.interp.tiles import Array
from loomgen.ir.types import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A binary format: ``precision`` significant bits, multiples of 2^``lowest``, magnitudes below 2^``top``.

    ``ties_away``: halves round away from zero (cvt.rna), else to even.
    """

    precision: int
    lowest: int
    top: int
    ties_away: bool = False


FORMATS = {
    DType.F32: Format(precision=24, lowest=-149, top=128),
    DType.TF32: Format(precision=11, lowest=-136, top=128, ties_away=True),
    DType.BF16: Format(precision=8, lowest=-133, top=128),
    DType.F16: Format(precision=11, lowest=-24, top=16),
}


def round_to(x: Array, dtype: DType) -> Array:
    """``x`` (float32 or float64) rounded to the floating ``dtype``, as float64; overflow gives an infinity."""
    wide = np.asarray(x, dtype=np.float64)
    form = FORMATS[dtype]
    _, exponents = np.frexp(wide)
    units = np.maximum(exponents - form.precision, form.lowest)
    scaled = np.ldexp(wide, -units)
    whole = _nearest_ties_away(scaled) if form.ties_away else np.rint(scaled)
    rounded = np.ldexp(whole, units)
    overflowed = np.abs(rounded) >= 2.0**form.top
    return np.asarray(np.where(overflowed, np.copysign(np.inf, rounded), rounded))


def _nearest_ties_away(x: Array) -> Array:
    """Never ``floor(x + 0.5)``: that sum is itself rounded."""
    magnitude = np.abs(x)
    whole = np.trunc(magnitude)
    return np.asarray(np.copysign(whole + (magnitude - whole >= 0.5), x))
