"""The gradients of an operator's results, by whatever runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from loomgen.verify.op_cases import OpCase, OpInputs, with_slack

GRADIENTS = {
    "q": "dq",
    "k": "dk",
    "v": "dv",
    "g": "dg",
    "beta": "dbeta",
    "initial_state": "dh0",
    "A_log": "dA_log",
    "dt_bias": "ddt_bias",
}
"""The inputs that have gradients, and what these are called."""

_OTHER_SEEDS = 2**31
"""Gradients are drawn from seeds that no inputs are drawn from; the generator takes 32 bits of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputGradients:
    """``do``, like ``v``; ``dht``, like the final state."""

    do: Tensor
    dht: Tensor


def output_gradients(case: OpCase, inputs: OpInputs, seed: int) -> OutputGradients:
    """Normal ones; NaN in slack tokens, as those of the inputs are."""
    gen = torch.Generator().manual_seed(_OTHER_SEEDS + seed)
    (_, hv), dim = case.heads, case.head_dim
    do = torch.randn(sum(case.lengths), hv, dim, generator=gen).to(case.dtype)
    return OutputGradients(
        do=with_slack(do, case.slack).view(inputs.v.shape),
        dht=torch.randn(len(case.lengths), hv, dim, dim, generator=gen) / 4,
    )


def with_gradients(
    run: Callable[[OpInputs], tuple[Tensor, Tensor]], inputs: OpInputs, given: OutputGradients
) -> dict[str, Tensor]:
    """``o`` and ``final_state`` as ``run`` makes them of inputs that require grad, then :data:`GRADIENTS` of those that
    there are, by autograd.
    """
    present = {name: x for name in GRADIENTS if isinstance(x := getattr(inputs, name), Tensor)}
    leaves = {name: x.detach().requires_grad_() for name, x in present.items()}
    o, final = run(replace(inputs, **leaves))
    found = torch.autograd.grad([o, final], list(leaves.values()), [given.do.to(o.dtype), given.dht.to(final.dtype)])
    gradients = {GRADIENTS[name]: x for name, x in zip(leaves, found, strict=True)}
    return {"o": o.detach(), "final_state": final.detach(), **gradients}


def widened(inputs: OpInputs) -> OpInputs:
    """``inputs`` in float64; zeros for the NaNs of slack tokens, which autograd would multiply by zero."""
    present = {name: x for name in GRADIENTS if isinstance(x := getattr(inputs, name), Tensor)}
    return replace(inputs, **{name: x.double().nan_to_num() for name, x in present.items()})
