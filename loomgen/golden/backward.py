"""The gated delta rule's gradients in closed form, those of :mod:`loomgen.golden.composed`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from loomgen.golden.composed import composed
from loomgen.golden.layout import batch, states_v_first
from loomgen.golden.stages import CHUNK


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
    found = composed(
        inputs.q, inputs.k, inputs.v, inputs.g, inputs.beta, d_out, inputs.state, d_final, bounds,
        scale=scale, normalise=use_qk_l2norm, chunk=chunk,
    )  # fmt: skip
    dq, dk, dv, dg, dbeta = found.gradients
    d_state = found.reverse.dh0
    return Gradients(
        q=inputs.output([dq]), k=inputs.output([dk]), v=inputs.output([dv]),
        g=inputs.output([dg]), beta=inputs.output([dbeta]),
        initial_state=d_state if state_v_first else d_state.transpose(-1, -2),
    )  # fmt: skip
