"""The window tables made on the device are the host's; room for more chunks is filled with empty ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from loomgen.emulator.stage import emulated_stage
from loomgen.registry import load
from loomgen.runtime.tables import WindowTables, window_tables

ROOT = Path(__file__).parents[2]
N_SURPLUS = 3
INTEGERS = {"i32": torch.int32, "i64": torch.int64}


def made(offsets: Tensor, n_tokens: int, n_chunks: int) -> dict[str, list[int]]:
    """What ``meta`` writes."""
    n = len(offsets)
    sizes = {"bounds": n, "seq_chunks": n, "starts": n_chunks, "lengths": n_chunks}
    tables = {name: torch.full((size,), -1, dtype=torch.int32) for name, size in sizes.items()}
    dtype = next(name for name, each in INTEGERS.items() if each is offsets.dtype)
    stage = emulated_stage(load("sm_100a", ROOT).kernel(f"meta__c64_{dtype}__base"), ROOT)
    report = stage.run({"offsets": offsets, "T": n_tokens, "NS": max(1, -(-n_chunks // n)), **tables})
    assert report.unwritten == {}
    return {name: table.tolist() for name, table in tables.items()}


def expected(tables: WindowTables, n_surplus: int) -> dict[str, list[int]]:
    end = int(tables.cu_seqlens[-1])
    return {
        "bounds": tables.cu_seqlens.tolist(),
        "seq_chunks": tables.seq_chunk_start.tolist(),
        "starts": [*tables.chunk_start.tolist(), *[end] * n_surplus],
        "lengths": [*tables.chunk_len.tolist(), *[0] * n_surplus],
    }


@pytest.mark.parametrize("dtype", INTEGERS.values())
@pytest.mark.parametrize("lengths", [(0, 15, 64, 65, 200), (1,), (0, 0), (130, 0), ()])
def test_tables_from_offsets_on_the_device(lengths: tuple[int, ...], dtype: torch.dtype) -> None:
    tables = window_tables(lengths, 64)
    n_chunks = len(tables.chunk_start) + N_SURPLUS
    assert made(tables.cu_seqlens.to(dtype), sum(lengths), n_chunks) == expected(tables, N_SURPLUS)


@pytest.mark.parametrize(
    ("offsets", "lengths"),
    [
        ((5, 70, 140), (70, 70)),
        ((0, -3, 100), (0, 100)),
        ((0, 90, 80, 100), (90, 0, 10)),
        ((0, 90, 141, 2**40), (90, 50, 0)),
        ((0, -(2**40), 2**31), (0, 140)),
    ],
)
def test_wrong_offsets_give_sequences_within_the_tokens(offsets: Sequence[int], lengths: Sequence[int]) -> None:
    tables = window_tables(lengths, 64)
    found = made(torch.tensor(offsets), 140, len(tables.chunk_start) + N_SURPLUS)
    assert found == expected(tables, N_SURPLUS)


def test_offsets_may_have_a_stride() -> None:
    tables = window_tables((3, 70), 64)
    offsets = torch.stack([tables.cu_seqlens, torch.full((3,), 9, dtype=torch.int32)], dim=1)[:, 0]
    assert made(offsets, 73, len(tables.chunk_start)) == expected(tables, 0)
