"""Where an access lies in shared memory: offset, slot, pitch and swizzle applied, as `loom/layout.cuh` does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loomgen.ir.plan import SharedBuffer, SharedLayout
from loomgen.passes.effects import Access
from loomgen.passes.footprints import WORD_BYTES, word_bytes

Words = npt.NDArray[np.int64]

_BANK_ROW_BYTES = 128
_CHUNK_BITS = 4


def cell_bytes(layout: SharedLayout) -> int:
    """The finest word of any buffer: what conflicts are told apart by."""
    return min((word_bytes(buffer) for buffer, _ in layout.offsets), default=WORD_BYTES)


def physical_words(access: Access, slot: int, layout: SharedLayout) -> tuple[Words, Words]:
    """The access's (threads, cells); a cell is :func:`cell_bytes`, counted from the start of the shared memory."""
    buffer, size = access.buffer, cell_bytes(layout)
    offset = dict(layout.offsets)[buffer] + slot * buffer.slot_bytes
    threads, logical = access.footprint[:, 0], access.footprint[:, 1]
    n_cells = word_bytes(buffer) // size
    first = (offset + _byte_in_slot(buffer, logical)) // size
    return np.repeat(threads, n_cells), (first[:, None] + np.arange(n_cells)).ravel()


def _byte_in_slot(buffer: SharedBuffer, logical: Words) -> Words:
    """Of a footprint's words, which are numbered row-major without padding or swizzle."""
    bytes_each, bytes_a_word = buffer.dtype.n_bytes, word_bytes(buffer)
    per_row = max(1, buffer.cols * bytes_each // bytes_a_word)
    row = logical // per_row if buffer.rows > 1 else np.zeros_like(logical)
    row_bytes = buffer.pitch * bytes_each
    panel_bytes = max(1, buffer.panel_cols * bytes_each)
    in_row = (logical - row * per_row) * bytes_a_word
    panel = in_row // panel_bytes if buffer.panels > 1 else np.zeros_like(in_row)
    plain = (panel * buffer.rows + row) * row_bytes + in_row - panel * panel_bytes
    chunk = (row >> _row_shift(row_bytes)) & ((1 << buffer.swizzle) - 1)
    swizzled: Words = plain ^ (chunk << _CHUNK_BITS)
    return swizzled


def _row_shift(row_bytes: int) -> int:
    """Rows that share a pass over the banks share a swizzle."""
    if row_bytes % _BANK_ROW_BYTES == 0:
        return 0
    return 1 if row_bytes % (_BANK_ROW_BYTES // 2) == 0 else 2
