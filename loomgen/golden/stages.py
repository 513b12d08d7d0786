"""The chunk form, stage by stage: what each stage of the compiled forward is to produce, without its rounding.

Tokens are packed and ragged: ``cu_seqlens`` [N + 1] gives the sequences, empty ones included, and token tensors are
[T, heads, D]. A chunk holds at most C tokens of one sequence; chunks are numbered in token order. States are [V, K].
Rows of slack tokens come back as zeros. Results have the dtype of the inputs; autograd differentiates them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from loomgen.golden.layout import chunks, join, per_value_head, reciprocal_length, sequence_bounds
from loomgen.golden.within import decays, heads_first, inverse_of, padded, with_gates

CHUNK = 64
"""Tokens in a chunk, unless a call says otherwise."""

LOWEST_LOG2_GATE = -128.0
"""Gates are clamped here, in log2 units: 2^-128 of a state is below what fp32 or bf16 keep of any update."""

Offsets = Tensor | Sequence[int]


class Prepared(NamedTuple):
    """``qn``, ``kn`` [T, H, K]; by chunk, [NC, HV, C], ``G``, the running sums of the clamped log2 gates, and ``beta``;
    ``q_rstd``, ``k_rstd`` [T, H], 1 over the lengths that q and k had, None where they are not normalised.

    Past a short chunk's end its last sum is repeated and ``beta`` is 0.
    """

    qn: Tensor
    kn: Tensor
    G: Tensor
    beta: Tensor
    q_rstd: Tensor | None
    k_rstd: Tensor | None


class Transform(NamedTuple):
    """The WY representation: ``w`` [T, HV, K]; ``u`` [T, HV, V]."""

    w: Tensor
    u: Tensor


class Scanned(NamedTuple):
    """``h`` [NC, HV, V, K], the state entering each chunk; ``v_new`` [NC, HV, V, C], 0 past a short chunk's end;
    ``final_state`` [N, HV, V, K]."""

    h: Tensor
    v_new: Tensor
    final_state: Tensor


def prep(
    q: Tensor,
    k: Tensor,
    g: Tensor,
    beta: Tensor,
    cu_seqlens: Offsets,
    *,
    normalise: bool = True,
    chunk: int = CHUNK,
) -> Prepared:
    """``q``, ``k`` [T, H, K], normalised on request; the natural log gates ``g`` and ``beta`` [T, HV] by chunk."""
    bounds = sequence_bounds(cu_seqlens, g.shape[0])
    log2_gates = (g * math.log2(math.e)).clamp(min=LOWEST_LOG2_GATE)
    sums, steps = [], []
    for c in chunks(bounds, chunk):
        within = log2_gates[c.tokens].cumsum(0).T
        sums.append(torch.cat([within, within[:, -1:].expand(-1, chunk - within.shape[-1])], dim=-1)[None])
        steps.append(padded(beta[c.tokens].T, chunk)[None])
    shape = (len(sums), g.shape[1], chunk)
    (qn, q_rstd), (kn, k_rstd) = (_normalised(x, bounds[-1]) if normalise else (x, None) for x in (q, k))
    return Prepared(
        qn=_without_slack(qn, bounds[-1]),
        kn=_without_slack(kn, bounds[-1]),
        G=join(sums, shape, g.dtype),
        beta=join(steps, shape, beta.dtype),
        q_rstd=q_rstd,
        k_rstd=k_rstd,
    )


def _normalised(x: Tensor, n_tokens: int) -> tuple[Tensor, Tensor]:
    """The first ``n_tokens`` rows of ``x`` divided by their lengths, and 1 over these; slack rows become zeros."""
    x = _without_slack(x, n_tokens)
    reciprocal = _without_slack(reciprocal_length(x), n_tokens)
    return x * reciprocal, reciprocal[..., 0]


def _without_slack(x: Tensor, n_tokens: int) -> Tensor:
    """``x`` [T, ..] with zeros from row ``n_tokens`` on, whatever stands there."""
    return join([x[:n_tokens]], x.shape, x.dtype)


def wy(kn: Tensor, G: Tensor, beta: Tensor, cu_seqlens: Offsets) -> Tensor:
    """A = (I + L)^-1 with L_ij = beta_i 2^(G_i - G_j) k_i.k_j for j < i: [T, HV, C], row i of a chunk at token i.

    ``kn`` [T, H, K]; ``G``, ``beta`` [NC, HV, C].
    """
    n_value_heads, chunk = G.shape[1:]
    keys = per_value_head(kn, n_value_heads)
    inverses = []
    for c, gates, steps in with_gates(G, beta, sequence_bounds(cu_seqlens, kn.shape[0])):
        kc = heads_first(keys[c.tokens])
        lower = (steps[:, :, None] * decays(gates) * (kc @ kc.mT)).tril(-1)
        identity = torch.eye(lower.shape[-1], dtype=lower.dtype)
        inverse = torch.linalg.solve_triangular(identity + lower, identity.expand_as(lower), upper=False)
        inverses.append(heads_first(padded(inverse, chunk)))
    return join(inverses, (kn.shape[0], n_value_heads, chunk), kn.dtype)


def wy_recompute(kn: Tensor, v: Tensor, G: Tensor, beta: Tensor, A: Tensor, cu_seqlens: Offsets) -> Transform:
    """w = A (beta 2^G k); u = A (beta v). ``v`` [T, HV, V]; ``A`` as :func:`wy` returns it, the others as it takes."""
    keys = per_value_head(kn, v.shape[1])
    ws, us = [], []
    for c, gates, steps in with_gates(G, beta, sequence_bounds(cu_seqlens, v.shape[0])):
        inverse = inverse_of(A, c)
        ws.append(heads_first(inverse @ ((steps * torch.exp2(gates))[:, :, None] * heads_first(keys[c.tokens]))))
        us.append(heads_first(inverse @ (steps[:, :, None] * heads_first(v[c.tokens]))))
    return Transform(w=join(ws, (*v.shape[:2], kn.shape[-1]), v.dtype), u=join(us, v.shape, v.dtype))


def fwd_h(kn: Tensor, v: Tensor, A: Tensor, G: Tensor, beta: Tensor, h0: Tensor | None, cu_seqlens: Offsets) -> Scanned:
    """The scan: x_i = beta_i (v_i - 2^(G_i) S k_i); n = A x; S <- 2^(G_C) S + sum_i 2^(G_C - G_i) n_i k_i^T.

    ``kn`` [T, H, K]; ``v`` [T, HV, V]; ``A`` [T, HV, C]; ``G``, ``beta`` [NC, HV, C]; ``h0`` [N, HV, V, K] or None for
    zeros.
    """
    bounds = sequence_bounds(cu_seqlens, v.shape[0])
    state_shape = (v.shape[1], v.shape[2], kn.shape[2])
    keys = per_value_head(kn, v.shape[1])
    start = torch.zeros(len(bounds) - 1, *state_shape, dtype=v.dtype) if h0 is None else h0
    states = list(start)
    entering, news = [], []
    for c, gates, steps in with_gates(G, beta, bounds):
        state, kc = states[c.sequence], heads_first(keys[c.tokens])
        entering.append(state[None])
        alone = steps[:, :, None] * (heads_first(v[c.tokens]) - torch.exp2(gates)[:, :, None] * (kc @ state.mT))
        new = inverse_of(A, c) @ alone
        news.append(padded(new.mT, G.shape[-1])[None])
        last = gates[:, -1:]
        weighted = torch.exp2(last - gates)[:, :, None] * new
        states[c.sequence] = torch.exp2(last)[:, :, None] * state + weighted.mT @ kc
    return Scanned(
        h=join(entering, (len(entering), *state_shape), v.dtype),
        v_new=join(news, (len(news), *v.shape[1:], G.shape[-1]), v.dtype),
        final_state=torch.stack(states) if states else start,
    )


def fwd_o(qn: Tensor, kn: Tensor, v_new: Tensor, h: Tensor, G: Tensor, cu_seqlens: Offsets, *, scale: float) -> Tensor:
    """o_i = scale (2^(G_i) S0 q_i + sum_{j <= i} 2^(G_i - G_j) (q_i.k_j) n_j), [T, HV, V].

    ``qn``, ``kn`` [T, H, K]; ``v_new`` (n) [NC, HV, V, C]; ``h`` (S0) [NC, HV, V, K]; ``G`` [NC, HV, C].
    """
    n_value_heads, value_dim, chunk = v_new.shape[1:]
    queries, keys = per_value_head(qn, n_value_heads), per_value_head(kn, n_value_heads)
    outputs = []
    every = chunks(sequence_bounds(cu_seqlens, qn.shape[0]), chunk)
    for c, state, new, sums in zip(every, h, v_new, G, strict=True):
        length = c.end - c.start
        qc, kc, gates = heads_first(queries[c.tokens]), heads_first(keys[c.tokens]), sums[:, :length]
        entering = torch.exp2(gates)[:, :, None] * (qc @ state.mT)
        within = (decays(gates) * (qc @ kc.mT)) @ new[:, :, :length].mT
        outputs.append(heads_first(scale * (entering + within)))
    return join(outputs, (qn.shape[0], n_value_heads, value_dim), v_new.dtype)
