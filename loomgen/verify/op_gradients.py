"""The gradients of an operator's results, by whatever runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from loomgen.verify.compare import relative_l2
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

SUMS = {"A_log": "dA_log", "dt_bias": "ddt_bias"}
"""Those that are sums over all tokens."""

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
    """``inputs`` in float64; zeros for the NaNs of slack tokens, which autograd would multiply by zero; ``A_log`` and
    ``dt_bias`` for each token apart, [B, T, HV]."""
    present = {name: x for name in GRADIENTS if isinstance(x := getattr(inputs, name), Tensor)}
    wide = {name: x.double().nan_to_num() for name, x in present.items()}
    of_tokens = {name: wide[name].expand(inputs.beta.shape).clone() for name in SUMS if name in wide}
    return replace(inputs, **{**wide, **of_tokens})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Results and gradients in float64, and what the norm of an error is divided by: their own norms, but for a sum
    that of the sums of magnitudes. A sum of parts of both signs may be as small as it likes; its error is not."""

    values: dict[str, Tensor]
    sizes: dict[str, float]

    @classmethod
    def of(cls, results: dict[str, Tensor]) -> Exact:
        """Of results for inputs that were :func:`widened`."""
        parts = {name: results[name].flatten(0, 1) for name in SUMS.values() if name in results}
        values = {**results, **{name: x.sum(0) for name, x in parts.items()}}
        largest = {**values, **{name: x.abs().sum(0) for name, x in parts.items()}}
        return cls(values=values, sizes={name: float(x.norm()) for name, x in largest.items()})

    def error(self, name: str, found: Tensor) -> float:
        """Of ``found``, which should be ``name``; inf where it is not finite."""
        return relative_l2(found, self.values[name], self.sizes[name])
