"""Buffers in shared memory: laid out so that neither copies nor products meet bank conflicts."""

from __future__ import annotations

import pytest

from loomgen.ir.types import DType, Index
from loomgen.passes.homes import shared_buffer

BANK_ROW_BYTES = 128


def letter(extent: int) -> Index:
    return Index(name="x", symbol="X", extent=extent)


@pytest.mark.parametrize(
    ("dtype", "cols", "pitch", "swizzle"),
    [
        (DType.BF16, 128, 128, 3),
        (DType.BF16, 64, 64, 3),
        (DType.F16, 32, 32, 2),
        (DType.BF16, 16, 16, 1),
        (DType.BF16, 8, 8, 0),
        (DType.BF16, 192, 192, 3),
        (DType.BF16, 96, 96, 2),
        (DType.BF16, 48, 48, 1),
        (DType.F16, 40, 40, 0),
        (DType.F32, 64, 72, 0),
        (DType.TF32, 16, 24, 0),
        (DType.F32, 8, 8, 0),
    ],
)
def test_rows_are_swizzled_or_padded(dtype: DType, cols: int, pitch: int, swizzle: int) -> None:
    buffer = shared_buffer("t", dtype, letter(64), letter(cols))
    assert (buffer.pitch, buffer.swizzle) == (pitch, swizzle)


@pytest.mark.parametrize("cols", [16, 24, 32, 40, 48, 64, 72, 80, 96, 128, 192])
def test_eight_rows_of_a_matrix_lie_in_different_banks(cols: int) -> None:
    """Byte offsets as `loom/layout.cuh` has them: 16-byte chunks XORed with the row, rows in pairs or fours."""
    buffer = shared_buffer("t", DType.BF16, letter(64), letter(cols))
    row_bytes = buffer.pitch * 2
    shift = 0 if row_bytes % 128 == 0 else 1 if row_bytes % 64 == 0 else 2
    mask = (1 << buffer.swizzle) - 1
    chunks = [(row * row_bytes ^ ((row >> shift) & mask) << 4) % BANK_ROW_BYTES // 16 for row in range(8)]
    assert sorted(chunks) == list(range(8))


def test_a_vector_has_one_plain_row() -> None:
    buffer = shared_buffer("g", DType.F32, None, letter(64), slots=2)
    assert (buffer.rows, buffer.cols, buffer.pitch, buffer.swizzle, buffer.n_bytes) == (1, 64, 64, 0, 512)
