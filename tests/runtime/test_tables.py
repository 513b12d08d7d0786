"""The tables behind windows, by hand."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from loomgen.runtime.tables import window_tables


def test_a_ragged_pack() -> None:
    tables = window_tables([0, 15, 64, 65, 200], 64)
    assert tables.cu_seqlens.tolist() == [0, 0, 15, 79, 144, 344]
    assert tables.seq_chunk_start.tolist() == [0, 0, 1, 2, 4, 8]
    assert tables.chunk_start.tolist() == [0, 15, 79, 143, 144, 208, 272, 336]
    assert tables.chunk_len.tolist() == [15, 64, 64, 1, 64, 64, 64, 8]
    assert {table.dtype for table in tables.by_name().values()} == {torch.int32}


def test_nothing_at_all() -> None:
    tables = window_tables([], 64)
    assert {name: table.tolist() for name, table in tables.by_name().items()} == {
        "cu_seqlens": [0],
        "seq_chunk_start": [0],
        "chunk_start": [],
        "chunk_len": [],
    }


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 16))
def test_chunks_cover_every_token_once_and_in_order(lengths: list[int], chunk: int) -> None:
    tables = window_tables(lengths, chunk)
    pairs = zip(tables.chunk_start.tolist(), tables.chunk_len.tolist(), strict=True)
    covered = [token for start, n in pairs for token in range(start, start + n)]
    assert covered == list(range(sum(lengths)))
    assert all(0 < n <= chunk for n in tables.chunk_len.tolist())
    assert tables.seq_chunk_start.tolist()[-1] == len(tables.chunk_start)
