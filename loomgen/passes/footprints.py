"""Which thread touches which word of a buffer: the geometry behind `effects`.

A footprint is an array of (thread, word) pairs: a word is 4 bytes of one slot, numbered row-major without padding; in
a vector of narrower elements, which threads own one by one, it is an element. Matrix loads and stores are attributed
to the lane that gives the row's address.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_never

from loomgen.ir import plan
from loomgen.ir.plan import RegisterLayout, SharedBuffer, SharedRef, Team
from loomgen.ir.tile import TileRead
from loomgen.ir.types import Index

Footprint = npt.NDArray[np.int64]  # [n, 2]: thread, word

WORD_BYTES = 4
CHUNK_BYTES = 16
SLAB_ROWS = 16


def word_bytes(buffer: SharedBuffer) -> int:
    """Of a footprint's word in this buffer."""
    return min(buffer.dtype.n_bytes, WORD_BYTES) if buffer.rows == 1 else WORD_BYTES


def _words(ref: SharedRef, threads: Footprint, rows: Footprint, cols: Footprint, n_cols: int) -> Footprint:
    """(thread, word) for ``n_cols`` elements from (row, col) of the block that ``ref`` names, without repeats."""
    bytes_each, bytes_a_word = ref.buffer.dtype.n_bytes, word_bytes(ref.buffer)
    threads, rows, cols = np.broadcast_arrays(threads, rows, cols)
    start = ((rows + ref.row0) * ref.buffer.cols + cols + ref.col0) * bytes_each
    n_words = max(1, n_cols * bytes_each // bytes_a_word)
    words = start.ravel()[:, None] // bytes_a_word + np.arange(n_words)
    n_all = int(words.max()) + 1
    touched = np.zeros((int(threads.max()) + 1, n_all), dtype=np.bool_)
    touched[np.repeat(threads.ravel(), n_words), words.ravel()] = True
    return np.argwhere(touched)


def _grid(*extents: int) -> list[Footprint]:
    return list(np.indices(extents).reshape(len(extents), -1))


def chunks(ref: SharedRef, team: Team, vector_bytes: int) -> Footprint:
    """Vectors of a tile in row-major order, dealt to the threads in turn."""
    per_vector = vector_bytes // ref.buffer.dtype.n_bytes
    per_row = ref.buffer.cols // per_vector
    vector = np.arange(ref.buffer.rows * per_row)
    return _words(ref, vector % team.threads, vector // per_row, vector % per_row * per_vector, per_vector)


def copied_out(op: plan.CopyOut, team: Team) -> Footprint:
    """16-byte chunks row-major: of the tile, or each warp's of its 16 rows and share of the columns; of what all parts
    hold, the first part's."""
    if op.of_warps is None:
        return chunks(op.src, team, CHUNK_BYTES)
    fragment, per_chunk = op.of_warps, CHUNK_BYTES // op.src.buffer.dtype.n_bytes
    n_parts = team.parts if fragment.col_parts > 1 else 1
    per_row = fragment.local_cols // per_chunk
    slab, part, chunk = _grid(team.slabs, n_parts, SLAB_ROWS * per_row)
    thread = _thread(team, slab, part, chunk % plan.WARP_THREADS)
    cols = part * fragment.local_cols + chunk % per_row * per_chunk
    return _words(op.src, thread, SLAB_ROWS * slab + chunk // per_row, cols, per_chunk)


def everything(ref: SharedRef, team: Team) -> Footprint:
    thread, row = _grid(team.threads, ref.buffer.rows)
    return _words(SharedRef(buffer=ref.buffer, axes=ref.axes), thread, row, np.zeros_like(row), ref.buffer.cols)


def by_first_thread(ref: SharedRef) -> Footprint:
    row = np.arange(ref.buffer.rows)
    return _words(
        SharedRef(buffer=ref.buffer, axes=ref.axes), np.zeros_like(row), row, np.zeros_like(row), ref.buffer.cols
    )


def mapped(ref: SharedRef, team: Team) -> Footprint:
    is_vector = ref.buffer.rows == 1
    return chunks(ref, team, ref.buffer.dtype.n_bytes if is_vector else CHUNK_BYTES)


def first_of_rows(op: plan.StoreRows, team: Team) -> Footprint:
    """Each row's number, by the first of the row's threads."""
    layout = op.src.layout
    if isinstance(layout, plan.Strip):
        group, turn = _grid(layout.groups, layout.passes)
        row = group + layout.groups * turn
        exists = row < layout.rows.extent
        return _words(op.dst, (group * layout.lanes)[exists], np.zeros_like(row)[exists], row[exists], 1)
    slab, quarter, half = _grid(team.slabs, 8, 2)
    thread = _thread(team, slab, np.zeros_like(slab), 4 * quarter)
    return _words(op.dst, thread, np.zeros_like(half), 16 * slab + quarter + 8 * half, 1)


def _thread(team: Team, slab: Footprint, part: Footprint, lane: Footprint) -> Footprint:
    return (part * team.slabs + slab) * plan.WARP_THREADS + lane


def matrix_rows(ref: SharedRef, fragment: plan.Fragment, team: Team, transposed: bool, every_part: bool) -> Footprint:
    """Row addresses of ldmatrix / stmatrix x4 over a fragment, 16 columns at a time."""
    n_parts = team.parts if every_part or fragment.col_parts > 1 else 1
    slab, part, pair, lane = _grid(team.slabs, n_parts, fragment.tiles // 2, plan.WARP_THREADS)
    first = 16 * pair + (part * fragment.local_cols if fragment.col_parts > 1 else 0)
    if transposed:
        rows, cols = first + 8 * (lane >> 4) + (lane & 7), 16 * slab + 8 * ((lane >> 3) & 1)
    else:
        rows, cols = 16 * slab + (lane & 15), first + 8 * (lane >> 4)
    return _words(ref, _thread(team, slab, part, lane), rows, cols, 8)


def loaded(op: plan.LoadFragment, team: Team) -> Footprint:
    if isinstance(op.dst, plan.RegisterTile) and op.dst.dtype.is_half:
        return matrix_rows(op.src, op.dst.fragment, team, op.transposed, every_part=True)
    return _held(op.src, op.dst.layout, team, op.transposed, team.threads)


def stored(op: plan.StoreFragment, team: Team) -> Footprint:
    """One part writes what all parts hold."""
    layout = op.src.layout
    if isinstance(op.src, plan.RegisterTile) and op.src.dtype.is_half:
        return matrix_rows(op.dst, op.src.fragment, team, op.transposed, every_part=False)
    is_replicated = isinstance(layout, plan.Fragment) and layout.col_parts == 1
    n_threads = team.slabs * plan.WARP_THREADS if is_replicated else team.threads
    return _held(op.dst, layout, team, op.transposed, n_threads)


def _held(ref: SharedRef, layout: RegisterLayout, team: Team, transposed: bool, n_threads: int) -> Footprint:
    """The words of the elements that the first threads hold of a register layout."""
    letters = layout_letters(layout, team)
    row, col = letters[layout.rows][:n_threads, :, None], letters[layout.cols][:n_threads, None, :]
    thread = np.arange(n_threads)[:, None, None]
    row, col, thread = np.broadcast_arrays(row, col, thread)
    exists = (row >= 0) & (col >= 0)
    rows, cols = (col, row) if transposed else (row, col)
    return _words(ref, thread[exists], rows[exists], cols[exists], 1)


def operand(op: plan.Mma, team: Team) -> Footprint:
    """What a warp reads of the second operand: its columns of the accumulator, its share of the contracted index."""
    depth = 16 if op.atom is plan.Atom.M16N8K16 else 8
    n_cols = op.acc.fragment.local_cols
    n_over = op.a.fragment.local_cols
    width = 16 if depth == 16 else 8
    slab, part, n, k, lane = _grid(team.slabs, team.parts, n_cols // width, n_over // depth, plan.WARP_THREADS)
    n0 = width * n + (part * n_cols if op.acc.fragment.col_parts > 1 else 0)
    k0 = depth * k + (part * n_over if op.a.fragment.col_parts > 1 else 0)
    thread = _thread(team, slab, part, lane)
    if depth == 16:
        if op.transposed:
            return _words(op.b, thread, k0 + (lane & 15), n0 + 8 * (lane >> 4), 8)
        return _words(op.b, thread, n0 + 8 * (lane >> 4) + (lane & 7), k0 + 8 * ((lane >> 3) & 1), 8)
    column, pair = n0 + lane // 4, k0 + 2 * (lane % 4)
    if op.transposed:
        halves = [_words(op.b, thread, pair + c, column, 1) for c in (0, 1)]
        return np.concatenate(halves)
    return _words(op.b, thread, column, pair, 2)


def partials(tile: plan.RegisterTile | plan.RowTile, team: Team, own: bool) -> Footprint:
    """What a thread has of a partial result, or what it takes of the other parts'."""
    return _row_partials(team, own) if isinstance(tile, plan.RowTile) else _tile_partials(tile.fragment, team, own)


def _row_partials(team: Team, own: bool) -> Footprint:
    """Row = the numbers of all rows of one part: of each row's four lanes the first writes, and all of them read."""
    slab, part, other, lane, half = _grid(team.slabs, team.parts, team.parts, plan.WARP_THREADS, 2)
    keep = (part == other) & (lane % 4 == 0) if own else part != other
    row = SLAB_ROWS * slab + lane // 4 + 8 * half
    word = other * SLAB_ROWS * team.slabs + row
    pairs: Footprint = np.stack([_thread(team, slab, part, lane), word], axis=-1)[keep]
    return pairs


def _tile_partials(fragment: plan.Fragment, team: Team, own: bool) -> Footprint:
    """Row = one accumulator tile of one warp, 4 elements a lane; a reader takes the same tiles of the other parts."""
    slab, part, other, n, lane = _grid(team.slabs, team.parts, team.parts, fragment.tiles, plan.WARP_THREADS)
    keep = (part == other) if own else (part != other)
    warp = other * team.slabs + slab
    word = ((warp * fragment.tiles + n) * plan.WARP_THREADS + lane) * 4
    pairs = np.stack(
        [np.repeat(_thread(team, slab, part, lane)[keep], 4), (word[keep][:, None] + np.arange(4)).ravel()]
    )
    transposed: Footprint = pairs.T
    return transposed


def diagonal_reads(ref: SharedRef, team: Team) -> Footprint:
    slab, lane, row = _grid(team.slabs, 16, 16)
    return _words(ref, _thread(team, slab, np.zeros_like(slab), lane), 16 * slab + row, 16 * slab, 16)


def diagonal_writes(ref: SharedRef, team: Team) -> Footprint:
    slab, lane, row = _grid(team.slabs, 16, 16)
    return _words(ref, _thread(team, slab, np.zeros_like(slab), lane), 16 * slab + row, lane, 1)


# --------------------------------------------------------------------------- element-wise reads


Letters = Mapping[Index, Footprint]
"""For each index letter the values that each thread gives it: [threads, n]."""


def layout_letters(layout: RegisterLayout, team: Team) -> Letters:
    """The rows and columns that each thread holds of a register layout."""
    thread = np.arange(team.threads)[:, None]
    match layout:
        case plan.Strip():
            rows = thread // layout.lanes + layout.groups * np.arange(layout.passes)
            rows = np.where(rows < layout.rows.extent, rows, -1)
            cols = layout.vector * (thread % layout.lanes) + np.arange(layout.vector)
        case plan.Fragment():
            warp, lane = thread // plan.WARP_THREADS, thread % plan.WARP_THREADS
            rows = 16 * (warp % team.slabs) + lane // 4 + np.array([0, 8])
            first = warp // team.slabs * layout.local_cols if layout.col_parts > 1 else np.zeros_like(warp)
            pairs = 8 * np.arange(layout.tiles)[:, None] + np.array([0, 1])
            cols = first + 2 * (lane % 4) + pairs.ravel()
        case _:
            assert_never(layout)
    return {layout.rows: rows, layout.cols: cols}


def dealt_letters(ref: SharedRef, team: Team) -> Letters:
    """The rows and columns of the chunks, or the elements of a vector, that each thread is dealt."""
    per_vector = 1 if ref.buffer.rows == 1 else CHUNK_BYTES // ref.buffer.dtype.n_bytes
    per_row = ref.buffer.cols // per_vector
    n_vectors = ref.buffer.rows * per_row
    vector = np.arange(team.threads)[:, None] + team.threads * np.arange(-(-n_vectors // team.threads))
    vector = np.where(vector < n_vectors, vector, -1)
    cols = (vector % per_row * per_vector)[:, :, None] + np.arange(per_vector)
    cols = np.where(vector[:, :, None] < 0, -1, cols).reshape(team.threads, -1)
    if len(ref.axes) == 1:
        return {ref.axes[0]: cols}
    return {ref.axes[0]: np.where(vector < 0, -1, vector // per_row), ref.axes[1]: cols}


def read_elements(read: TileRead, ref: SharedRef, letters: Letters, team: Team) -> Footprint:
    """The elements that each thread reads; a letter that it does not hold is taken to run over all values, -1 over
    none.
    """
    subs = dict(zip(read.value.indices, read.subs, strict=True))
    axes = [_axis_values(subs[axis].index, subs[axis].offset, axis, letters, team) for axis in ref.axes]
    rows = axes[0] if len(axes) == 2 else np.zeros((team.threads, 1), dtype=np.int64)
    thread = np.arange(team.threads)[:, None, None]
    row, col, thread = np.broadcast_arrays(rows[:, :, None], axes[-1][:, None, :], thread)
    exists = (row >= 0) & (col >= 0)
    plain = SharedRef(buffer=ref.buffer, axes=ref.axes)
    return _words(plain, thread[exists], row[exists], col[exists], 1)


def _axis_values(letter: Index | None, offset: int, axis: Index, letters: Letters, team: Team) -> Footprint:
    if letter is None:
        return np.full((team.threads, 1), offset)
    values = letters.get(letter)
    if values is None:
        values = np.broadcast_to(np.arange(axis.extent - offset), (team.threads, axis.extent - offset))
    return np.where(values < 0, -1, values + offset)
