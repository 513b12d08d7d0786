"""How a call's tokens fall into sequences and chunks: known to the host, or bounded by it and found by the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from loomgen.ops.dispatch import CHUNK
from loomgen.runtime.tables import most_chunks, window_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """``n_chunks``: those that there is room for. ``n_used``: tokens that kernels see to; past them ``o`` is zero.

    ``tables`` are the window tables by name, on the CPU; empty where the GPU makes them.
    """

    n_sequences: int
    n_chunks: int
    n_used: int
    tables: Mapping[str, Tensor]


def known_batch(lengths: Sequence[int]) -> Batch:
    """The batch of sequences with these lengths."""
    tables = window_tables(lengths, CHUNK)
    return Batch(n_sequences=len(lengths), n_chunks=len(tables.chunk_len), n_used=sum(lengths), tables=tables.by_name())


def bounded_batch(n_tokens: int, n_sequences: int) -> Batch:
    """The batch of so many sequences in ``n_tokens`` tokens, whatever their lengths are."""
    return Batch(
        n_sequences=n_sequences,
        n_chunks=most_chunks(n_tokens, n_sequences, CHUNK),
        n_used=n_tokens,
        tables={},
    )
