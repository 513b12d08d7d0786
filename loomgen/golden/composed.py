"""The stages of a training call one after the other, each on the results of those before it."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from loomgen.golden.stages import CHUNK, Offsets, Prepared, Scanned, fwd_h, prep, wy
from loomgen.golden.stages_backward import ChunkGradients, ReverseScanned, chunk_grads, dhu, dv_local


class Composed(NamedTuple):
    """What the stages return: ``A`` [T, HV, C] of ``wy``, ``dn`` [T, HV, V] of ``dv_local``."""

    prepared: Prepared
    A: Tensor
    scanned: Scanned
    dn: Tensor
    reverse: ReverseScanned
    gradients: ChunkGradients


def composed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    do: Tensor,
    h0: Tensor | None,
    dht: Tensor,
    cu_seqlens: Offsets,
    *,
    scale: float,
    normalise: bool = True,
    chunk: int = CHUNK,
) -> Composed:
    """All stages but those that make o.

    ``q``, ``k`` [T, H, K]; ``v``, ``do`` [T, HV, V]; ``g``, ``beta`` [T, HV]; states and their gradients [N, HV, V, K].
    """
    prepared = prep(q, k, g, beta, cu_seqlens, normalise=normalise, chunk=chunk)
    A = wy(prepared.kn, prepared.G, prepared.beta, cu_seqlens)
    scanned = fwd_h(prepared.kn, v, A, prepared.G, prepared.beta, h0, cu_seqlens)
    dn = dv_local(prepared, do, cu_seqlens, scale=scale)
    reverse = dhu(prepared, A, do, dn, dht, cu_seqlens, scale=scale)
    gradients = chunk_grads(prepared, v, g, scanned, reverse, do, cu_seqlens, scale=scale)
    return Composed(prepared, A, scanned, dn, reverse, gradients)
