"""The chunk tables made on the device are the host's; room for more chunks is filled with empty ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from loomgen.emulator.stage import emulated_stage
from loomgen.registry import load
from loomgen.runtime.tables import window_tables

ROOT = Path(__file__).parents[2]
N_SURPLUS = 3


@pytest.mark.parametrize("seqlens", [(0, 15, 64, 65, 200), (1,), (0, 0), (130, 0)])
def test_tables_from_offsets_on_the_device(seqlens: tuple[int, ...]) -> None:
    tables = window_tables(seqlens, 64)
    n_chunks = len(tables.chunk_start)
    tensors = {
        "seq_chunks": torch.full((len(seqlens) + 1,), -1, dtype=torch.int32),
        "starts": torch.full((n_chunks + N_SURPLUS,), -1, dtype=torch.int32),
        "lengths": torch.full((n_chunks + N_SURPLUS,), -1, dtype=torch.int32),
    }
    stage = emulated_stage(load("sm_100a", ROOT).kernel("meta__c64__base"), ROOT)
    report = stage.run({"offsets": tables.cu_seqlens, **tensors})
    assert tensors["seq_chunks"].tolist() == tables.seq_chunk_start.tolist()
    assert tensors["starts"].tolist() == [*tables.chunk_start.tolist(), *[sum(seqlens)] * N_SURPLUS]
    assert tensors["lengths"].tolist() == [*tables.chunk_len.tolist(), *[0] * N_SURPLUS]
    assert report.unwritten == {}
