"""Where words lie in shared memory: the formula of ``loom/layout.cuh``, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loomgen.ir.plan import SharedBuffer, SharedLayout
from loomgen.ir.types import DType
from loomgen.passes.effects import Access
from loomgen.passes.words import cell_bytes, physical_words
from tests.passes.support import buffer


def cells(
    of: SharedBuffer, *logical: int, slot: int = 0, offset: int = 0, beside: SharedBuffer | None = None
) -> list[int]:
    """Where thread 0's words lie."""
    footprint = np.array([(0, word) for word in logical])
    access = Access(buffer=of, ahead=0, is_write=False, is_async=False, footprint=footprint)
    others = () if beside is None else ((beside, 0),)
    threads, words = physical_words(access, slot, SharedLayout(offsets=((of, offset), *others), n_bytes=1 << 16))
    assert not threads.any()
    return [int(word) for word in words]


def test_a_plain_tile_is_row_major_from_its_offset() -> None:
    assert cells(buffer("a"), 0, 15, 16) == [0, 15, 16]
    assert cells(buffer("a"), 0, 15, 16, offset=128) == [32, 47, 48]


def test_slots_follow_each_other() -> None:
    assert cells(buffer("a", slots=3), 1, slot=2) == [1 + 2 * 512]


def test_rows_are_a_pitch_apart() -> None:
    padded = replace(buffer("a", rows=4, cols=16, dtype=DType.F32), pitch=24)
    assert cells(padded, 15, 16, 33) == [15, 24, 49]


@pytest.mark.parametrize(
    ("cols", "swizzle", "row", "expected"),
    [
        (64, 3, 1, 32 + 4),  # 128-byte rows: chunk 0 of row 1 goes to chunk 1
        (64, 3, 7, 7 * 32 + 28),
        (64, 3, 8, 8 * 32),
        (32, 2, 1, 16),  # two 64-byte rows share a swizzle
        (32, 2, 2, 2 * 16 + 4),
        (16, 1, 3, 3 * 8),  # four 32-byte rows do
        (16, 1, 4, 4 * 8 + 4),
        (96, 2, 2, 2 * 48 + 4),  # 192 bytes: a bank row and a half, two rows share a swizzle
        (48, 1, 4, 4 * 24 + 4),
    ],
)
def test_chunks_are_swizzled_by_row(cols: int, swizzle: int, row: int, expected: int) -> None:
    tile = replace(buffer("a", cols=cols), swizzle=swizzle)
    assert cells(tile, row * cols // 2) == [expected]


def test_a_narrow_vector_makes_all_cells_narrow() -> None:
    vector, tile = buffer("v", rows=1), buffer("a")
    assert cell_bytes(SharedLayout(offsets=((tile, 0),), n_bytes=2048)) == 4
    assert cells(vector, 0, 1, 5) == [0, 1, 5]
    assert cells(tile, 3, beside=vector) == [6, 7]
