"""What stands within a chunk: its gates, their decays, its rows of A; padding and the order of heads and tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from loomgen.golden.layout import Chunk, chunks


def with_gates(G: Tensor, beta: Tensor, bounds: Sequence[int]) -> Iterator[tuple[Chunk, Tensor, Tensor]]:
    """Each chunk with its gates' sums and steps, [HV, L] both: without what stands past its end."""
    for c, sums, steps in zip(chunks(bounds, G.shape[-1]), G, beta, strict=True):
        length = c.end - c.start
        yield c, sums[:, :length], steps[:, :length]


def inverse_of(A: Tensor, c: Chunk) -> Tensor:
    """That of chunk ``c``: [HV, L, L]."""
    return heads_first(A[c.tokens])[:, :, : c.end - c.start]


def padded(x: Tensor, n: int) -> Tensor:
    """``x`` with zeros up to length ``n`` in its last axis."""
    return torch.nn.functional.pad(x, (0, n - x.shape[-1]))


def decays(gates: Tensor) -> Tensor:
    """``gates`` [HV, L] to 2^(G_i - G_j) for j <= i, else 0: [HV, L, L]; masked before the exponential, so that a
    difference of the wrong sign never overflows, in the value or in a gradient."""
    differences = gates[:, :, None] - gates[:, None, :]
    future = torch.ones(differences.shape[-2:], dtype=torch.bool).triu(1)
    return torch.exp2(differences.masked_fill(future, -torch.inf))


def heads_first(x: Tensor) -> Tensor:
    """``x`` [tokens, heads, D] as [heads, tokens, D], and back."""
    return x.transpose(0, 1)
