"""The chunk form's gradients in closed form: what the stages of the backward are to produce, without their rounding.

Layouts are those of :mod:`loomgen.golden.stages`. Gradients of gates are those of natural log gates throughout: the
factor ln 2 of a power of two and the factor log2 e of the sums cancel.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from loomgen.golden.layout import join, per_value_head, sequence_bounds
from loomgen.golden.stages import LOWEST_LOG2_GATE, Offsets, Prepared, Scanned
from loomgen.golden.within import decays, heads_first, inverse_of, padded, with_gates


class ReverseScanned(NamedTuple):
    """``dh`` [NC, HV, V, K], the gradient of the state leaving each chunk; ``dx`` [NC, HV, V, C], that of the rows x
    before A, 0 past a short chunk's end; ``dh0`` [N, HV, V, K]."""

    dh: Tensor
    dx: Tensor
    dh0: Tensor


class ChunkGradients(NamedTuple):
    """``dq``, ``dk`` [T, H, K]; ``dv`` [T, HV, V]; ``dg``, ``dbeta`` [T, HV]: those of the operator's arguments."""

    dq: Tensor
    dk: Tensor
    dv: Tensor
    dg: Tensor
    dbeta: Tensor


def dv_local(prepared: Prepared, do: Tensor, cu_seqlens: Offsets, *, scale: float) -> Tensor:
    """dn = P^T do, what reaches v_new within its chunk, [T, HV, V]; P_ij = scale 2^(G_i - G_j) (q_i.k_j) for j <= i.

    ``do`` [T, HV, V].
    """
    n_value_heads = do.shape[1]
    queries, keys = per_value_head(prepared.qn, n_value_heads), per_value_head(prepared.kn, n_value_heads)
    rows = []
    for c, gates, _ in with_gates(prepared.G, prepared.beta, sequence_bounds(cu_seqlens, do.shape[0])):
        qc, kc, doc = (heads_first(x[c.tokens]) for x in (queries, keys, do))
        attention = scale * decays(gates) * (qc @ kc.mT)
        rows.append(heads_first(attention.mT @ doc))
    return join(rows, do.shape, do.dtype)


def dhu(
    prepared: Prepared, A: Tensor, do: Tensor, dn: Tensor, dht: Tensor, cu_seqlens: Offsets, *, scale: float
) -> ReverseScanned:
    """The reverse scan, last chunk first: dn += 2^(G_C - G) (dS k); dx = A^T dn; dS <- the entering state's.

    ``A`` [T, HV, C]; ``do``, ``dn`` (of :func:`dv_local`) [T, HV, V]; ``dht`` [N, HV, V, K].
    """
    n_value_heads, value_dim = do.shape[1:]
    queries, keys = per_value_head(prepared.qn, n_value_heads), per_value_head(prepared.kn, n_value_heads)
    G = prepared.G
    states = list(dht)
    leaving, rows = [], []
    for c, gates, steps in reversed(list(with_gates(G, prepared.beta, sequence_bounds(cu_seqlens, do.shape[0])))):
        state = states[c.sequence]
        qc, kc, doc, within = (heads_first(x[c.tokens]) for x in (queries, keys, do, dn))
        last, powers = gates[:, -1:], torch.exp2(gates)[:, :, None]
        dx = inverse_of(A, c).mT @ (within + torch.exp2(last - gates)[:, :, None] * (kc @ state.mT))
        leaving.append(state[None])
        rows.append(padded(dx.mT, G.shape[-1])[None])
        from_outputs = scale * (powers * doc).mT @ qc
        from_rows = (steps[:, :, None] * powers * dx).mT @ kc
        states[c.sequence] = torch.exp2(last)[:, :, None] * state + from_outputs - from_rows
    return ReverseScanned(
        dh=join(leaving[::-1], (len(leaving), *dht.shape[1:]), do.dtype),
        dx=join(rows[::-1], (len(rows), n_value_heads, value_dim, G.shape[-1]), do.dtype),
        dh0=torch.stack(states) if states else dht,
    )


def chunk_grads(
    prepared: Prepared,
    v: Tensor,
    g: Tensor,
    scanned: Scanned,
    reverse: ReverseScanned,
    do: Tensor,
    cu_seqlens: Offsets,
    *,
    scale: float,
) -> ChunkGradients:
    """All gradients of a chunk from the states at its two borders; independent of the other chunks.

    ``v``, ``do`` [T, HV, V]; ``g`` [T, HV], the natural log gates as they came: clamped ones pass no gradient. dq and
    dk are summed over the value heads of a key head in head order, then go through the norm.
    """
    qn, kn, G, beta = prepared.qn, prepared.kn, prepared.G, prepared.beta
    n_tokens, n_value_heads, _ = v.shape
    queries, keys = per_value_head(qn, n_value_heads), per_value_head(kn, n_value_heads)
    every = with_gates(G, beta, sequence_bounds(cu_seqlens, n_tokens))
    by_chunk = zip(every, scanned.h, scanned.v_new, reverse.dh, reverse.dx, strict=True)
    found: list[ChunkGradients] = []
    for (c, gates, steps), h, v_new, dh, dx in by_chunk:
        qc, kc, vc, doc = (heads_first(x[c.tokens]) for x in (queries, keys, v, do))
        new, d_rows = (x[:, :, : c.end - c.start].mT for x in (v_new, dx))
        found.append(_within_chunk(qc, kc, vc, doc, gates, steps, h, dh, new, d_rows, scale))
    per_head = (n_tokens, n_value_heads, kn.shape[-1])
    dq, dk = (
        _by_key_head(join([getattr(x, name) for x in found], per_head, v.dtype), kn.shape[1]) for name in ("dq", "dk")
    )
    kept = g * math.log2(math.e) >= LOWEST_LOG2_GATE
    return ChunkGradients(
        dq=_through_norm(dq, qn, prepared.q_rstd),
        dk=_through_norm(dk, kn, prepared.k_rstd),
        dv=join([x.dv for x in found], v.shape, v.dtype),
        dg=join([x.dg for x in found], v.shape[:2], v.dtype) * kept,
        dbeta=join([x.dbeta for x in found], v.shape[:2], v.dtype),
    )


def _through_norm(d_normalised: Tensor, normalised: Tensor, rstd: Tensor | None) -> Tensor:
    """The gradient of rows from that of the ``normalised`` ones, which are the rows times ``rstd``; None: as they are.

    What lies along a row does not change it.
    """
    if rstd is None:
        return d_normalised
    along = (d_normalised * normalised).sum(-1, keepdim=True)
    return rstd[..., None] * (d_normalised - along * normalised)


def _within_chunk(
    q: Tensor, k: Tensor, v: Tensor, do: Tensor, gates: Tensor, steps: Tensor,
    h: Tensor, dh: Tensor, n: Tensor, dx: Tensor, scale: float,
) -> ChunkGradients:  # fmt: skip
    """One chunk's gradients, each token first, dq and dk by value head.

    ``q``, ``k`` [HV, L, K]; ``v``, ``do``, ``n``, ``dx`` [HV, L, V]; ``gates`` (G), ``steps`` (beta) [HV, L]; the
    state entering, ``h``, and the gradient of the one leaving, ``dh``, [HV, V, K].
    """
    step, powers = steps[:, :, None], torch.exp2(gates)[:, :, None]
    rest = torch.exp2(gates[:, -1:] - gates)[:, :, None]
    decay, alike = decays(gates), k @ k.mT
    d_attention, d_lower = (do @ n.mT).tril(), -(dx @ n.mT).tril(-1)
    to_queries, to_keys = scale * decay * d_attention, step * decay * d_lower
    through_outputs, through_rows, through_state = scale * powers * (do @ h), step * powers * (dx @ h), rest * (n @ dh)
    pairs = to_queries * (q @ k.mT) + to_keys * alike
    leaving = (through_state * k).sum(-1)
    d_sums = pairs.sum(-1) - pairs.sum(-2) + (through_outputs * q - through_rows * k).sum(-1) - leaving
    d_sums[:, -1] += leaving.sum(-1) + torch.exp2(gates[:, -1]) * (h * dh).sum((-1, -2))
    return ChunkGradients(
        dq=heads_first(through_outputs + to_queries @ k),
        dk=heads_first(to_queries.mT @ q + through_state - through_rows + (to_keys + to_keys.mT) @ k),
        dv=heads_first(step * dx),
        dg=d_sums.flip(-1).cumsum(-1).flip(-1).T,
        dbeta=((dx * (v - powers * (k @ h.mT))).sum(-1) + (d_lower * decay * alike).sum(-1)).T,
    )


def _by_key_head(x: Tensor, n_key_heads: int) -> Tensor:
    """``x`` [T, HV, K] summed over the value heads of each key head, in head order: [T, H, K]."""
    groups = x.reshape(x.shape[0], n_key_heads, x.shape[1] // n_key_heads, x.shape[2])
    total = groups[:, :, 0]
    for head in range(1, groups.shape[2]):
        total = total + groups[:, :, head]
    return total
