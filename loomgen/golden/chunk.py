"""The gated delta rule in chunks: the stages of :mod:`loomgen.golden.stages` composed."""

from __future__ import annotations

import torch
from torch import Tensor

from loomgen.golden.layout import batch
from loomgen.golden.stages import CHUNK, fwd_h, fwd_o, prep, wy


def chunk_gated_delta_rule(
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
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """The same function as ``recurrent_gated_delta_rule`` (same arguments, layouts, results and errors), in chunks.

    Gates below 2^-128 are clamped there, and pass no gradient.
    """
    inputs = batch(
        q, k, v, g, beta,
        scale=scale, initial_state=initial_state, cu_seqlens=cu_seqlens, state_v_first=state_v_first, dtype=dtype,
    )  # fmt: skip
    bounds = inputs.bounds
    prepared = prep(inputs.q, inputs.k, inputs.g, inputs.beta, bounds, normalise=use_qk_l2norm, chunk=chunk)
    inverse = wy(prepared.kn, prepared.G, prepared.beta, bounds)
    scanned = fwd_h(prepared.kn, inputs.v, inverse, prepared.G, prepared.beta, inputs.state, bounds)
    o = fwd_o(prepared.qn, prepared.kn, scanned.v_new, scanned.h, prepared.G, bounds, scale=inputs.scale)
    final = scanned.final_state
    return inputs.output([o]), final if state_v_first else final.transpose(-1, -2)
