"""Cases of math.cuh and types.cuh: functions of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loomgen.conformance import inputs
from loomgen.conformance.case import Case
from loomgen.conformance.compare import Array, Bitwise, Comparison, Envelope, Ulps

_BITWISE = Bitwise()

EXP2 = Ulps(3, flushes=True)
"""PTX: ex2.approx.ftz is within 2 ulp of the correctly rounded result; the host, within 0.5001 ulp of the exact value,
is at most one step from that. Both make 0 of what is subnormal."""

RSQRT = Ulps(2)
"""PTX: rsqrt.approx has a relative error of at most 2^-22.9, which is at most 2.15 ulp; the host is within 0.5001 ulp
of the exact value, so at most 2 floats are between."""


def _at_least(smallest: float) -> Callable[[Sequence[Array], Array], Array]:
    """The scale |host|, but no less than ``smallest``."""

    def scale(inputs: Sequence[Array], host: Array) -> Array:
        floored: Array = np.maximum(np.abs(host.astype(np.float64)), smallest)
        return floored

    return scale


_LG2_RELATIVE = 2.0**-22 + 0.5001 * 2.0**-23
LG2 = Envelope(
    relative=_LG2_RELATIVE,
    scale=_at_least(1.0),
    bound="(2^-22 + 0.5001 * 2^-23) * max(|host|, 1)",
)
"""PTX: lg2.approx has an absolute error of at most 2^-22 for arguments in (0.5, 2), where |log2| < 1, and a relative
error of at most 2^-22 elsewhere; the host is within 0.5001 ulp of the exact value."""

LOG = Envelope(
    relative=_LG2_RELATIVE + 2.0**-23,
    scale=_at_least(math.log(2.0)),
    bound="(2^-22 + 1.5001 * 2^-23) * max(|host|, ln 2)",
)
"""The bound of log2 times ln 2, and half an ulp for the product on either side."""


@dataclass(frozen=True, slots=True)
class _Data:
    """Inputs of one size: what they are called, how many elements each has, and how they are made."""

    name: str
    size: int
    make: Callable[[], tuple[Array, ...]]


_SWEEP = _Data("every_exponent", 1 << 20, lambda: (inputs.sweep(),))
_EXPONENTS = _Data("from_-330_to_130", 1 << 20, lambda: (inputs.exponents(),))
_AROUND_ONE = _Data("from_0.25_to_4", 1 << 20, lambda: (inputs.around_one(),))
_PAIRS = _Data("pairs", 1 << 18, lambda: inputs.operands(2))
_TRIPLES = _Data("triples", 1 << 18, lambda: inputs.operands(3))
_HALVES = _Data("every_half", 1 << 16, lambda: (inputs.halves(),))
_PACKED = _Data("every_half", 1 << 16, lambda: (inputs.packed_halves(),))
_BITS = _Data("every_exponent", 1 << 20, lambda: (inputs.sweep().view(np.uint32),))
_DOUBLES = _Data("distinct", 1 << 14, lambda: (inputs.distinct(1 << 14, np.uint64),))


def _elementwise(
    kernel: str,
    primitive: str,
    data: _Data,
    *,
    comparison: Comparison = _BITWISE,
    output: npt.DTypeLike = np.float32,
) -> Case:
    return Case(
        name=f"{kernel}.{data.name}",
        primitives=(primitive,),
        source="math",
        kernel=kernel,
        inputs=data.make,
        output_dtype=output,
        output_shape=(data.size,),
        grid=data.size // 4096,
        block=256,
        comparison=comparison,
    )


def math_cases() -> tuple[Case, ...]:
    """One case or more for each function of math.cuh and types.cuh.

    Results that are bits, and floats that are taken from bits, are compared as integers: NaNs as they are."""
    return (*_approximations(), *_arithmetic(), *_conversions())


def _approximations() -> tuple[Case, ...]:
    return (
        _elementwise("math_exp2_approx", "exp2_approx", _SWEEP, comparison=EXP2),
        _elementwise("math_exp2_approx", "exp2_approx", _EXPONENTS, comparison=EXP2),
        _elementwise("math_exp_approx", "exp_approx", _SWEEP, comparison=EXP2),
        _elementwise("math_exp_approx", "exp_approx", _EXPONENTS, comparison=EXP2),
        _elementwise("math_lg2_approx", "lg2_approx", _SWEEP, comparison=LG2),
        _elementwise("math_lg2_approx", "lg2_approx", _AROUND_ONE, comparison=LG2),
        _elementwise("math_log_approx", "log_approx", _SWEEP, comparison=LOG),
        _elementwise("math_log_approx", "log_approx", _AROUND_ONE, comparison=LOG),
        _elementwise("math_rsqrt_approx", "rsqrt_approx", _SWEEP, comparison=RSQRT),
        _elementwise("math_rsqrt_approx", "rsqrt_approx", _AROUND_ONE, comparison=RSQRT),
    )


def _arithmetic() -> tuple[Case, ...]:
    return (
        _elementwise("math_sqrt_rn", "sqrt_rn", _SWEEP),
        _elementwise("math_abs_f32", "abs_f32", _SWEEP),
        _elementwise("math_div_rn", "div_rn", _PAIRS),
        _elementwise("math_fma_rn", "fma_rn", _TRIPLES),
        _elementwise("math_min_f32", "min_f32", _PAIRS),
        _elementwise("math_max_f32", "max_f32", _PAIRS),
        _elementwise("math_add", "a + b", _PAIRS),
        _elementwise("math_subtract", "a - b", _PAIRS),
        _elementwise("math_multiply", "a * b", _PAIRS),
        _elementwise("math_multiply_add", "a * b + c", _TRIPLES),
    )


def _conversions() -> tuple[Case, ...]:
    return (
        _elementwise("math_to_bits", "to_bits", _SWEEP, output=np.uint32),
        _elementwise("math_from_bits", "from_bits", _BITS, output=np.uint32),
        _elementwise("math_to_bf16", "to_bf16", _SWEEP, output=np.uint16),
        _elementwise("math_to_f16", "to_f16", _SWEEP, output=np.uint16),
        _elementwise("math_to_tf32", "to_tf32", _SWEEP),
        _elementwise("math_bf16_to_f32", "to_f32(bf16)", _HALVES, output=np.uint32),
        _elementwise("math_f16_to_f32", "to_f32(f16)", _HALVES),
        _elementwise("math_pack_bf16", "pack_bf16", _PAIRS, output=np.uint32),
        _elementwise("math_pack_f16", "pack_f16", _PAIRS, output=np.uint32),
        _elementwise("math_lo_bf16", "lo_bf16", _PACKED, output=np.uint32),
        _elementwise("math_hi_bf16", "hi_bf16", _PACKED, output=np.uint32),
        _elementwise("math_lo_f16", "lo_f16", _PACKED),
        _elementwise("math_hi_f16", "hi_f16", _PACKED),
        _elementwise("types_bit_cast", "bit_cast", _DOUBLES, output=np.uint64),
    )
