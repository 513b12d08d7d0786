"""What a caller asks the memory of, checked as the call itself would be."""

from __future__ import annotations

import torch

from loomgen.ops.arguments import check_flags
from loomgen.ops.dispatch import ACTIVATIONS, CHUNK, HEAD_DIMS
from loomgen.runtime.tables import most_chunks


def check_asked(
    *,
    n_tokens: int,
    n_sequences: int,
    key_heads: int,
    value_heads: int,
    head_dim: int,
    dtype: torch.dtype,
    n_chunks: int | None,
    **flags: bool,
) -> None:
    """Raises TypeError and ValueError that name the argument, its value and what was expected."""
    _check_count("n_tokens", n_tokens, 0)
    for name, count in (("n_sequences", n_sequences), ("key_heads", key_heads), ("value_heads", value_heads)):
        _check_count(name, count, 1)
    if value_heads % key_heads:
        raise ValueError(f"value_heads: {value_heads}, expected a multiple of key_heads, {key_heads}")
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim: {head_dim!r}, expected {' or '.join(map(str, HEAD_DIMS))}")
    if dtype not in ACTIVATIONS:
        raise TypeError(f"dtype: {dtype!r}, expected {' or '.join(map(str, ACTIVATIONS))}")
    if n_chunks is not None:
        _check_count("n_chunks", n_chunks, 0)
        most = most_chunks(n_tokens, n_sequences, CHUNK)
        if n_chunks > most:
            raise ValueError(f"n_chunks: {n_chunks}, expected at most {most}, which so many tokens can have")
    check_flags(**flags)


def _check_count(name: str, count: object, least: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"{name}: {count!r}, expected an integer")
    if count < least:
        raise ValueError(f"{name}: {count}, expected at least {least}")
