"""What the results are compared with: the recurrence in float64, a token after the other, sequences side by side."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor

from loomgen.bench.inputs import Inputs

_EPS = 1e-6
"""Added to a squared norm before its root."""


def recurrent_reference(x: Inputs) -> tuple[Tensor, Tensor]:
    """``o`` [T, HV, V] of all tokens in order and the final states [N, HV, K, V], float64, on the device of ``x``.

    q and k are divided by their lengths; the scale is K^-1/2.
    """
    n_sequences, tokens = len(x.lengths), _tokens(x)
    longest_first = sorted(range(n_sequences), key=lambda n: -x.lengths[n])
    order = torch.tensor(longest_first, device=x.q.device)
    starts = torch.tensor([0, *accumulate(x.lengths)], device=x.q.device)[order]
    state = _start(x)[order].transpose(-1, -2).contiguous()
    o = torch.zeros(tokens.shape[0], *x.v.shape[2:], dtype=torch.float64, device=x.q.device)
    n_active = n_sequences
    for step in range(max(x.lengths, default=0)):
        while x.lengths[longest_first[n_active - 1]] <= step:
            n_active -= 1
        rows = starts[:n_active] + step
        o.index_copy_(0, rows, _advance(state[:n_active], tokens.index_select(0, rows), x.q.shape[3]))
    final = torch.empty_like(state)
    final[order] = state
    return o, final.transpose(-1, -2)


def _tokens(x: Inputs) -> Tensor:
    """All that a token brings, side by side so that one copy fetches it: scaled q, k, v, decay and beta of each value
    head, [T, HV, K + K + V + 2] float64."""
    groups = x.v.shape[2] // x.q.shape[2]
    q, k = (_normalised(t).repeat_interleave(groups, 1) for t in (x.q, x.k))
    v, beta, gate = (t.flatten(0, 1).double() for t in (x.v, x.beta, x.g))
    return torch.cat([q * x.q.shape[3] ** -0.5, k, v, gate.exp()[..., None], beta[..., None]], -1)


def _normalised(x: Tensor) -> Tensor:
    packed = x.flatten(0, 1).double()
    return packed * torch.rsqrt(packed.square().sum(-1, keepdim=True) + _EPS)


def _start(x: Inputs) -> Tensor:
    if x.initial_state is not None:
        return x.initial_state.double()
    shape = (len(x.lengths), x.v.shape[2], x.q.shape[3], x.v.shape[3])
    return torch.zeros(shape, dtype=torch.float64, device=x.q.device)


def _advance(state: Tensor, token: Tensor, key_dim: int) -> Tensor:
    """A token of each sequence: ``state`` [n, HV, V, K] is advanced in place; returns o [n, HV, V]."""
    q, k, v, decay, beta = token.split_with_sizes((key_dim, key_dim, state.shape[2], 1, 1), -1)
    state.mul_(decay[..., None])
    error = v - (state @ k[..., None])[..., 0]
    state.addcmul_((beta * error)[..., None], k[..., None, :])
    return (state @ q[..., None])[..., 0]
