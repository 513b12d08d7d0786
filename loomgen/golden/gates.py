"""Gates and steps from what a layer projects, as the operator's flags make them, and their gradients in closed form.

Tokens are [.., HV], any number of them; rates ``A_log`` and ``dt_bias`` are [HV]. Everything is computed in ``dtype``;
autograd differentiates it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from loomgen.golden.layout import chunks, join, sequence_bounds
from loomgen.golden.stages import CHUNK, Offsets

SOFTPLUS_THRESHOLD = 20.0
"""Above it softplus(x) counts as x, and its derivative as 1."""


class GateGradients(NamedTuple):
    """``da`` [T, HV]; by chunk, [NC, HV], the parts of the gradients of ``A_log`` and ``dt_bias``."""

    da: Tensor
    dA_log_parts: Tensor
    ddt_bias_parts: Tensor


def gate_from_raw(
    a: Tensor, A_log: Tensor, dt_bias: Tensor | None = None, *, dtype: torch.dtype = torch.float64
) -> Tensor:
    """-exp(A_log) softplus(a + dt_bias): the natural logarithm of the decay."""
    return -A_log.to(dtype).exp() * _softplus(_biased(a, dt_bias, dtype))


def step_from_raw(b: Tensor, *, allow_neg_eigval: bool = False, dtype: torch.dtype = torch.float64) -> Tensor:
    """sigmoid(b), twice that with ``allow_neg_eigval``: then a state's eigenvalues go down to -1."""
    return _largest_step(allow_neg_eigval) * b.to(dtype).sigmoid()


def gate_gradients(
    a: Tensor, A_log: Tensor, dt_bias: Tensor | None, dg: Tensor, cu_seqlens: Offsets, *, chunk: int = CHUNK
) -> GateGradients:
    """From ``dg`` [T, HV], the gradient of :func:`gate_from_raw` of ``a`` [T, HV], in the dtype of ``dg``; slack tokens
    get zeros and count for nothing."""
    bounds = sequence_bounds(cu_seqlens, a.shape[0])
    x = _biased(a, dt_bias, dg.dtype)
    rates = A_log.to(dg.dtype).exp()
    derivative = torch.where(x > SOFTPLUS_THRESHOLD, torch.ones_like(x), x.sigmoid())
    dx, d_rates = -rates * derivative * dg, -rates * _softplus(x) * dg
    every = chunks(bounds, chunk)
    shape = (len(every), a.shape[1])
    return GateGradients(
        da=join([dx[: bounds[-1]]], dx.shape, dx.dtype),
        dA_log_parts=join([d_rates[c.tokens].sum(0, keepdim=True) for c in every], shape, dx.dtype),
        ddt_bias_parts=join([dx[c.tokens].sum(0, keepdim=True) for c in every], shape, dx.dtype),
    )


def step_gradient(b: Tensor, dbeta: Tensor, cu_seqlens: Offsets, *, allow_neg_eigval: bool = False) -> Tensor:
    """From ``dbeta`` [T, HV], the gradient of :func:`step_from_raw` of ``b`` [T, HV]; slack tokens get zeros."""
    end = sequence_bounds(cu_seqlens, b.shape[0])[-1]
    s = b.to(dbeta.dtype).sigmoid()
    return join([(_largest_step(allow_neg_eigval) * s * (1 - s) * dbeta)[:end]], b.shape, dbeta.dtype)


def _biased(a: Tensor, dt_bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    return a.to(dtype) if dt_bias is None else a.to(dtype) + dt_bias.to(dtype)


def _softplus(x: Tensor) -> Tensor:
    return torch.where(x > SOFTPLUS_THRESHOLD, x, x.clamp(max=SOFTPLUS_THRESHOLD).exp().log1p())


def _largest_step(allow_neg_eigval: bool) -> float:
    return 2.0 if allow_neg_eigval else 1.0
