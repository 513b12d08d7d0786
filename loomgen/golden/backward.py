"""The gated delta rule's gradients in closed form, composed of :mod:`loomgen.golden.stages_backward`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from loomgen.golden.layout import batch, states_v_first
from loomgen.golden.stages import CHUNK, fwd_h, prep, wy
from loomgen.golden.stages_backward import chunk_grads, dhu, dv_local


class Gradients(NamedTuple):
    """Those of ``chunk_gated_delta_rule``'s arguments, each laid out as its argument."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    beta: Tensor
    initial_state: Tensor


def chunk_gated_delta_rule_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    beta: Tensor,
    do: Tensor,
    dht: Tensor | None = None,
    *,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    use_qk_l2norm: bool = False,
    state_v_first: bool = False,
    dtype: torch.dtype = torch.float64,
    chunk: int = CHUNK,
) -> Gradients:
    """Gradients of ``chunk_gated_delta_rule`` (same arguments, layouts and errors) for ``do``, shaped like ``v``, and
    ``dht``, laid out as the final state, None for zeros.

    Slack tokens get zeros; gates below 2^-128 pass no gradient. Raises ValueError, too, if ``do`` does not have the
    shape of ``v``, or ``dht`` that of the states.
    """
    if do.shape != v.shape:
        raise ValueError(f"do has shape {tuple(do.shape)}: want {tuple(v.shape)}, that of v")
    inputs = batch(
        q, k, v, g, beta,
        scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens, state_v_first=state_v_first, dtype=dtype,
    )  # fmt: skip
    bounds, scale = inputs.bounds, inputs.scale
    d_out = do.to(dtype).reshape(-1, *v.shape[-2:])[: bounds[-1]]
    d_final = states_v_first("dht", dht, inputs.state, state_v_first)
    prepared = prep(inputs.q, inputs.k, inputs.g, inputs.beta, bounds, normalise=use_qk_l2norm, chunk=chunk)
    inverse = wy(prepared.kn, prepared.G, prepared.beta, bounds)
    scanned = fwd_h(prepared.kn, inputs.v, inverse, prepared.G, prepared.beta, inputs.state, bounds)
    within = dv_local(prepared, d_out, bounds, scale=scale)
    reverse = dhu(prepared, inverse, d_out, within, d_final, bounds, scale=scale)
    dq, dk, dv, dg, dbeta = chunk_grads(prepared, inputs.v, inputs.g, scanned, reverse, d_out, bounds, scale=scale)
    return Gradients(
        q=inputs.output([dq]), k=inputs.output([dk]), v=inputs.output([dv]),
        g=inputs.output([dg]), beta=inputs.output([dbeta]),
        initial_state=reverse.dh0 if state_v_first else reverse.dh0.transpose(-1, -2),
    )  # fmt: skip
