"""Cases of mma.cuh and linalg.cuh: what a warp does together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from loomgen.conformance.case import Case
from loomgen.conformance.compare import Array, Bitwise, Comparison, Envelope
from loomgen.conformance.fragments import (
    BF16,
    F16,
    PRODUCTS,
    TF32,
    Format,
    magnitudes,
    mixed_magnitudes,
    scaled_integers,
    special_values,
)
from loomgen.conformance.inputs import distinct, hashed

_BITWISE = Bitwise()
_INVERSES = 64

_PRIMITIVES = {"bf16": "mma_m16n8k16_bf16", "f16": "mma_m16n8k16_f16", "tf32": "mma_m16n8k8_tf32"}


def matrix_cases() -> tuple[Case, ...]:
    """One case or more for each function of the two headers."""
    kinds = ("x4", "x4_trans", "x2", "x2_trans")
    products = (case for form in (BF16, F16, TF32) for case in _products(form))
    return (*map(_load, kinds), *map(_store, kinds), *products, _invert())


def _load(kind: str) -> Case:
    """32 rows of 8 distinct 16-bit elements."""
    return Case(
        name=f"mma_ldmatrix_{kind}",
        primitives=(f"ldmatrix_{kind}",),
        source="mma",
        kernel=f"mma_ldmatrix_{kind}",
        inputs=lambda: (distinct(256, np.uint16),),
        output_dtype=np.uint32,
        output_shape=(32, _registers(kind)),
        block=32,
        shared_bytes=32 * 48,
        comparison=_BITWISE,
    )


def _store(kind: str) -> Case:
    """Distinct registers over 32 rows of other distinct elements."""
    n = 64 * _registers(kind)
    return Case(
        name=f"mma_stmatrix_{kind}",
        primitives=(f"stmatrix_{kind}",),
        source="mma",
        kernel=f"mma_stmatrix_{kind}",
        inputs=lambda: (distinct(256 + n, np.uint16)[:256], distinct(256 + n, np.uint16)[256:]),
        output_dtype=np.uint16,
        output_shape=(32, 8),
        block=32,
        shared_bytes=32 * 48,
        comparison=_BITWISE,
    )


def _registers(kind: str) -> int:
    return 4 if kind.startswith("x4") else 2


def product_envelope(form: Format) -> Envelope:
    """The device aligns the products and c to the largest of them and cuts what lies below some bit at or below the
    last one of a float of that magnitude, perhaps in two steps of half the depth: each of the depth products, of the
    at most two incoming and the at most two outgoing sums loses at most 2^-23 of sum |a * b| + |c|. The host's only
    rounding, half of that, is within the margin, for not all of these can be as large as the sum."""
    return Envelope(
        relative=(form.depth + 4) * 2.0**-23,
        scale=magnitudes(form),
        bound=f"{form.depth + 4} * 2^-23 * (sum |a * b| + |c|)",
    )


def _products(form: Format) -> tuple[Case, ...]:
    smallest = {"bf16": -133, "f16": -24, "tf32": -136}[form.name]
    large = {"bf16": 100, "f16": 0, "tf32": 100}[form.name]
    exact = (
        _product(form, "integers", lambda: scaled_integers(form, 127, 0, 0), _BITWISE),
        _product(form, "subnormal_operands", lambda: scaled_integers(form, 127, smallest, large), _BITWISE),
        _product(form, "infinities_and_nans", lambda: special_values(form), _BITWISE),
        _product(form, "fractions", lambda: mixed_magnitudes(form), product_envelope(form)),
    )
    if form is F16:
        return exact  # products of f16 are never subnormal floats
    return (*exact, _product(form, "subnormal_sums", lambda: scaled_integers(form, 127, -70, -70), _BITWISE))


def _product(form: Format, dataset: str, make: Callable[[], tuple[Array, ...]], comparison: Comparison) -> Case:
    return Case(
        name=f"mma_{form.name}.{dataset}",
        primitives=(_PRIMITIVES[form.name],),
        source="mma",
        kernel=f"mma_{form.name}",
        inputs=make,
        output_dtype=np.float32,
        output_shape=(PRODUCTS, 32, 4),
        grid=PRODUCTS,
        block=32,
        comparison=comparison,
    )


def _invert() -> Case:
    return Case(
        name="linalg_invert_unit_lower_16",
        primitives=("invert_unit_lower_16",),
        source="linalg",
        kernel="linalg_invert_unit_lower_16",
        inputs=_lower_blocks,
        output_dtype=np.float32,
        output_shape=(_INVERSES, 32, 32),
        grid=_INVERSES,
        block=32,
        shared_bytes=32 * (36 + 40) * 4,
        comparison=_BITWISE,
    )


def _lower_blocks() -> tuple[Array, Array]:
    """Matrices whose inverses range from small numbers to overflow, and what lies where the inverses go."""
    shape = (_INVERSES, 32, 32)
    fractions = hashed(_INVERSES * 1024, 71).astype(np.int32).astype(np.float32) * np.float32(2.0**-31)
    sizes = np.float32(2.0) ** (np.arange(_INVERSES, dtype=np.float32) / 4 - 4)
    block_row, block_col = np.arange(32)[:, None] - 16, np.arange(32)[None, :] - 4
    is_read = (block_row >= 0) & (block_col >= 0) & (block_col < block_row)
    lower = np.where(is_read, fractions.reshape(shape) * sizes[:, None, None], np.float32(np.nan))
    return lower.astype(np.float32), np.full(shape, -7.0, np.float32)
