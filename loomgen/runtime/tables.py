"""The tables behind windows: where the chunks of a packed, ragged batch lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from loomgen.registry.tables import WINDOW_TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTables:
    """All i32. ``cu_seqlens``, ``seq_chunk_start`` [N + 1]; ``chunk_start``, ``chunk_len`` [NC].

    Sequence n owns tokens cu_seqlens[n] .. cu_seqlens[n+1] and chunks seq_chunk_start[n] .. seq_chunk_start[n+1];
    chunk c owns ``chunk_len[c]`` tokens from ``chunk_start[c]``. An empty sequence owns no chunk.
    """

    cu_seqlens: Tensor
    seq_chunk_start: Tensor
    chunk_start: Tensor
    chunk_len: Tensor

    def by_name(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in WINDOW_TABLES}


def window_tables(lengths: Sequence[int], chunk: int) -> WindowTables:
    """The tables of sequences with these lengths, cut into chunks of at most ``chunk`` tokens, on the CPU."""
    bounds, firsts, starts, lens = [0], [0], [], []
    for length in lengths:
        for offset in range(0, length, chunk):
            starts.append(bounds[-1] + offset)
            lens.append(min(chunk, length - offset))
        bounds.append(bounds[-1] + length)
        firsts.append(len(starts))
    return WindowTables(
        cu_seqlens=_i32(bounds), seq_chunk_start=_i32(firsts), chunk_start=_i32(starts), chunk_len=_i32(lens)
    )


def most_chunks(n_tokens: int, n_sequences: int, chunk: int) -> int:
    """The most chunks that ``n_sequences`` sequences of ``n_tokens`` tokens in all can have."""
    return min(n_tokens, n_tokens // chunk + n_sequences)


def _i32(values: list[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.int32, device="cpu")  # whatever torch's default device is
