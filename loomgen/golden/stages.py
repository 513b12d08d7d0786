"""The chunk form, stage by stage: what each stage of the compiled forward is to produce, without its rounding.

Tokens are packed and ragged: ``cu_seqlens`` [N + 1] gives the sequences, empty ones included, and token tensors are
[T, heads, D]. A chunk holds at most ``chunk`` tokens of one sequence; chunks are numbered in token order. States are
[V, K]. Rows of slack tokens come back as zeros. Results have the dtype of the inputs; autograd differentiates them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from loomgen.golden.layout import chunks, join, l2_normalise, per_value_head, sequence_bounds

CHUNK = 64
"""Tokens in a chunk, unless a call says otherwise."""

LOWEST_LOG2_GATE = -128.0
"""Gates are clamped here, in log2 units: 2^-128 of a state is below what fp32 or bf16 keep of any update."""

Offsets = Tensor | Sequence[int]


class Prepared(NamedTuple):
    """``qn``, ``kn`` [T, H, K]; ``G`` [T, HV], the running sum of the clamped log2 gates within the chunk."""

    qn: Tensor
    kn: Tensor
    G: Tensor


class Transform(NamedTuple):
    """``A`` [T, HV, C], row i of a chunk's (I + L)^-1 at token i; ``w`` [T, HV, K]; ``u`` [T, HV, V]."""

    A: Tensor
    w: Tensor
    u: Tensor


class Scanned(NamedTuple):
    """``h`` [NC, HV, V, K], the state entering each chunk; ``v_new`` [T, HV, V]; ``final_state`` [N, HV, V, K]."""

    h: Tensor
    v_new: Tensor
    final_state: Tensor


def prep(
    q: Tensor, k: Tensor, g: Tensor, cu_seqlens: Offsets, *, normalise: bool = True, chunk: int = CHUNK
) -> Prepared:
    """``q``, ``k`` [T, H, K], normalised on request, and the running sums of the natural log gates ``g`` [T, HV]."""
    bounds = sequence_bounds(cu_seqlens, g.shape[0])
    log2_gates = (g * math.log2(math.e)).clamp(min=LOWEST_LOG2_GATE)
    sums = [log2_gates[c.tokens].cumsum(0) for c in chunks(bounds, chunk)]
    qn, kn = (join([l2_normalise(x[: bounds[-1]]) if normalise else x[: bounds[-1]]], x.shape, x.dtype) for x in (q, k))
    return Prepared(qn, kn, join(sums, g.shape, g.dtype))


def wy(kn: Tensor, v: Tensor, G: Tensor, beta: Tensor, cu_seqlens: Offsets, *, chunk: int = CHUNK) -> Transform:
    """A = (I + L)^-1 with L_ij = beta_i 2^(G_i - G_j) k_i.k_j for j < i; w = A (beta 2^G k); u = A (beta v).

    ``kn`` [T, H, K]; ``v`` [T, HV, V]; ``G``, ``beta`` [T, HV].
    """
    keys = per_value_head(kn, v.shape[1])
    inverses, ws, us = [], [], []
    for c in chunks(sequence_bounds(cu_seqlens, v.shape[0]), chunk):
        kc, vc = _swap(keys[c.tokens]), _swap(v[c.tokens])
        gates, steps = G[c.tokens].T, beta[c.tokens].T[:, :, None]
        lower = (steps * _decays(gates) * (kc @ kc.mT)).tril(-1)
        identity = torch.eye(lower.shape[-1], dtype=lower.dtype)
        inverse = torch.linalg.solve_triangular(identity + lower, identity.expand_as(lower), upper=False)
        ws.append(_swap(inverse @ (steps * torch.exp2(gates)[:, :, None] * kc)))
        us.append(_swap(inverse @ (steps * vc)))
        padding = chunk - lower.shape[-1]
        inverses.append(_swap(torch.nn.functional.pad(inverse, (0, padding))))
    return Transform(
        A=join(inverses, (*v.shape[:2], chunk), v.dtype),
        w=join(ws, (*v.shape[:2], kn.shape[-1]), v.dtype),
        u=join(us, v.shape, v.dtype),
    )


def fwd_h(
    kn: Tensor, w: Tensor, u: Tensor, G: Tensor, h0: Tensor | None, cu_seqlens: Offsets, *, chunk: int = CHUNK
) -> Scanned:
    """The scan over each sequence's chunks: n = u - w S^T; S <- 2^(G_C) S + sum_i 2^(G_C - G_i) n_i k_i^T.

    ``kn`` [T, H, K]; ``w`` [T, HV, K]; ``u`` [T, HV, V]; ``G`` [T, HV]; ``h0`` [N, HV, V, K] or None for zeros.
    """
    bounds = sequence_bounds(cu_seqlens, u.shape[0])
    state_shape = (u.shape[1], u.shape[2], kn.shape[2])
    keys = per_value_head(kn, u.shape[1])
    start = torch.zeros(len(bounds) - 1, *state_shape, dtype=u.dtype) if h0 is None else h0
    states = list(start)
    entering, news = [], []
    for c in chunks(bounds, chunk):
        state, gates = states[c.sequence], G[c.tokens].T
        entering.append(state[None])
        new = _swap(u[c.tokens]) - _swap(w[c.tokens]) @ state.mT
        news.append(_swap(new))
        last = gates[:, -1:]
        weighted = torch.exp2(last - gates)[:, :, None] * new
        states[c.sequence] = torch.exp2(last)[:, :, None] * state + weighted.mT @ _swap(keys[c.tokens])
    return Scanned(
        h=join(entering, (len(entering), *state_shape), u.dtype),
        v_new=join(news, u.shape, u.dtype),
        final_state=torch.stack(states) if states else start,
    )


def fwd_o(
    qn: Tensor,
    kn: Tensor,
    v_new: Tensor,
    h: Tensor,
    G: Tensor,
    cu_seqlens: Offsets,
    *,
    scale: float,
    chunk: int = CHUNK,
) -> Tensor:
    """o_i = scale (2^(G_i) S0 q_i + sum_{j <= i} 2^(G_i - G_j) (q_i.k_j) n_j), [T, HV, V].

    ``qn``, ``kn`` [T, H, K]; ``v_new`` (n) [T, HV, V]; ``h`` (S0) [NC, HV, V, K]; ``G`` [T, HV].
    """
    n_value_heads = v_new.shape[1]
    queries, keys = per_value_head(qn, n_value_heads), per_value_head(kn, n_value_heads)
    outputs = []
    for state, c in zip(h, chunks(sequence_bounds(cu_seqlens, v_new.shape[0]), chunk), strict=True):
        qc, kc, gates = _swap(queries[c.tokens]), _swap(keys[c.tokens]), G[c.tokens].T
        entering = torch.exp2(gates)[:, :, None] * (qc @ state.mT)
        within = (_decays(gates) * (qc @ kc.mT)) @ _swap(v_new[c.tokens])
        outputs.append(_swap(scale * (entering + within)))
    return join(outputs, v_new.shape, v_new.dtype)


def _decays(gates: Tensor) -> Tensor:
    """``gates`` [HV, L] to 2^(G_i - G_j) for j <= i, else 0: [HV, L, L]; masked before the exponential, so that a
    difference of the wrong sign never overflows, in the value or in a gradient."""
    differences = gates[:, :, None] - gates[:, None, :]
    future = torch.ones(differences.shape[-2:], dtype=torch.bool).triu(1)
    return torch.exp2(differences.masked_fill(future, -torch.inf))


def _swap(x: Tensor) -> Tensor:
    """[tokens, heads, D] to [heads, tokens, D] and back."""
    return x.transpose(0, 1)
