"""Raw gates and steps, the gradients that come back to them, and the float64 tensors of the stages in between."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from loomgen import golden

_LARGEST_STEP = 2.0
"""Of negative eigenvalues: with 1 a stage might leave the factor out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawInputs:
    """``a``, ``b``, ``dg``, ``dbeta`` [T, HV]; ``A_log``, ``dt_bias`` [HV]; fp32 but for ``a`` and ``b``."""

    a: Tensor
    b: Tensor
    A_log: Tensor
    dt_bias: Tensor
    dg: Tensor
    dbeta: Tensor

    def gate(self) -> Tensor:
        return golden.gate_from_raw(self.a, self.A_log, self.dt_bias)

    def step(self) -> Tensor:
        return golden.step_from_raw(self.b, allow_neg_eigval=True)

    def given(self) -> dict[str, Tensor | float]:
        """What the stages read, by name."""
        named = {name: getattr(self, name) for name in ("a", "b", "A_log", "dt_bias", "dg", "dbeta")}
        return {**named, "largest_step": _LARGEST_STEP}

    def expected(self, cu_seqlens: Tensor) -> dict[str, Tensor]:
        """What the stages write, in float64, by name."""
        grads = golden.gate_gradients(self.a, self.A_log, self.dt_bias, self.dg.double(), cu_seqlens)
        return {
            "made_gate": self.gate(),
            "made_step": self.step(),
            **grads._asdict(),
            "db": golden.step_gradient(self.b, self.dbeta.double(), cu_seqlens, allow_neg_eigval=True),
            "dA_log": grads.dA_log_parts.sum(0),
            "ddt_bias": grads.ddt_bias_parts.sum(0),
        }


def raw_inputs(g: Tensor, beta: Tensor, gates: torch.dtype, steps: torch.dtype, gen: torch.Generator) -> RawInputs:
    """Raw gates and steps, in the dtypes ``gates`` and ``steps``, of which ``g`` and ``beta`` [T, HV] are made but for
    their rounding; normal gradients."""
    n_heads = g.shape[1]

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=gen, dtype=torch.float32)

    A_log, dt_bias = normal(n_heads) / 2, normal(n_heads)
    softplus = -g.double() / A_log.double().exp()
    return RawInputs(
        a=(softplus + torch.log(-torch.expm1(-softplus)) - dt_bias).to(gates),
        b=(beta.double() / _LARGEST_STEP).logit().to(steps),
        A_log=A_log,
        dt_bias=dt_bias,
        dg=normal(*g.shape),
        dbeta=normal(*g.shape),
    )
