"""Calls of the operator on small random inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from loomgen.ops import chunk_gated_delta_rule
from loomgen.verify import OpCase
from loomgen.verify.op import op_inputs


def arguments(case: OpCase, seed: int = 0) -> dict[str, Any]:
    """Keyword arguments for the operator, final state included."""
    inputs = op_inputs(case, seed)
    return {
        "q": inputs.q,
        "k": inputs.k,
        "v": inputs.v,
        "g": inputs.g,
        "beta": inputs.beta,
        "initial_state": inputs.initial_state,
        "output_final_state": True,
        "use_qk_l2norm_in_kernel": case.normalise,
        "state_v_first": case.state_v_first,
        "cu_seqlens": inputs.cu_seqlens,
        "A_log": inputs.A_log,
        "dt_bias": inputs.dt_bias,
        **case.raw_flags,
    }


def run(given: dict[str, Any], **changes: Any) -> tuple[Tensor, Tensor]:
    """``o`` and the final state."""
    o, final = chunk_gated_delta_rule(**{**given, **changes})
    assert final is not None
    return o, final


def tokens(given: dict[str, Any], begin: int, end: int) -> dict[str, Any]:
    """The arguments of a packed call that lie along the tokens, from ``begin`` to ``end``."""
    return {name: given[name][:, begin:end] for name in ("q", "k", "v", "g", "beta")}


def offsets(*values: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.tensor(values, dtype=dtype)
