"""The gated delta rule as it is defined: one token after the other."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from loomgen.golden.layout import batch, l2_normalise, per_value_head


def recurrent_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    beta: Tensor,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    use_qk_l2norm: bool = False,
    state_v_first: bool = False,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    """Per value head and token: S <- exp(g) S; S <- S + beta (v - S k) k^T; o = scale S q.

    ``q``, ``k`` [T, H, K] or [B, T, H, K]; ``v`` [.., HV, V]; ``g`` (natural log of the decay, None: no decay) and
    ``beta`` [.., HV]. Without ``cu_seqlens`` [N + 1] every batch row is a sequence; with it the T tokens hold N
    sequences (B is 1 if present) and rows past the last one come back as zeros. ``scale`` defaults to K^-1/2.
    ``initial_state`` [N, HV, K, V], or [N, HV, V, K] if ``state_v_first``, defaults to zeros. Everything is computed
    in ``dtype``; autograd differentiates it. Returns ``o``, shaped like ``v``, and the final state, laid out as the
    initial one. Raises ValueError for shapes or offsets that do not fit.
    """
    inputs = batch(
        q, k, v, g, beta,
        scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens, state_v_first=state_v_first, dtype=dtype,
    )  # fmt: skip
    n_value_heads = inputs.v.shape[1]
    queries, keys = (l2_normalise(x) if use_qk_l2norm else x for x in (inputs.q, inputs.k))
    queries, keys = per_value_head(queries, n_value_heads), per_value_head(keys, n_value_heads)
    outputs, states = [], []
    for n, (begin, end) in enumerate(pairwise(inputs.bounds)):
        state = inputs.state[n]
        for t in range(begin, end):
            state = _step(state, keys[t], inputs.v[t], inputs.g[t], inputs.beta[t])
            outputs.append(inputs.scale * _apply(state, queries[t])[None])
        states.append(state)
    final = torch.stack(states) if states else inputs.state
    return inputs.output(outputs), final if state_v_first else final.transpose(-1, -2)


def _step(state: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """The state [HV, V, K] after a token: ``k`` [HV, K], ``v`` [HV, V], ``g`` and ``beta`` [HV]."""
    decayed = torch.exp(g)[:, None, None] * state
    error = v - _apply(decayed, k)
    return decayed + (beta[:, None] * error)[:, :, None] * k[:, None, :]


def _apply(state: Tensor, x: Tensor) -> Tensor:
    """``state`` [HV, V, K] times ``x`` [HV, K] for each head: [HV, V]."""
    return (state @ x[:, :, None])[:, :, 0]
