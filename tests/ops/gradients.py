"""Gradients of small calls: the operator's, and those of the float64 recurrence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from loomgen import golden
from loomgen.ops import chunk_gated_delta_rule
from loomgen.ops.autograd import DIFFERENTIABLE
from loomgen.verify import OpCase, same_bits
from loomgen.verify.op import golden_gates, op_inputs
from tests.ops.call import arguments

Gradients = dict[str, Tensor | None]
"""By argument; None where there is none."""

SMALL = OpCase(name="small", lengths=(15, 65), head_dim=64)
RAW = replace(SMALL, raw_gates=torch.bfloat16, raw_steps=torch.bfloat16, negative=True)


def cotangents(case: OpCase, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Normal gradients of ``o``, NaN in the slack, and of the final state."""
    gen = torch.Generator().manual_seed(seed)
    inputs = op_inputs(case, 0)
    do = torch.randn(inputs.v.shape, generator=gen).to(case.dtype)
    do.flatten(0, 1)[sum(case.lengths) :] = float("nan")
    dim = case.head_dim
    return do, torch.randn(len(case.lengths), case.heads[1], dim, dim, generator=gen) / 4


def leaves(given: dict[str, Any]) -> dict[str, Tensor]:
    """What of ``given`` can be differentiated in, where it lies, as leaves of a new graph."""
    tensors = {name: given.get(name) for name in DIFFERENTIABLE}
    return {name: x.detach().requires_grad_() for name, x in tensors.items() if x is not None}


def pulled(results: tuple[Tensor | None, ...], given: dict[str, Tensor], of: tuple[Tensor | None, ...]) -> Gradients:
    """The gradients of ``given`` from those ``of`` the results; a result whose gradient is None is not used."""
    used = [(x, dx) for x, dx in zip(results, of, strict=True) if x is not None and dx is not None]
    outputs, gradients = zip(*used, strict=True)
    found = torch.autograd.grad(outputs, tuple(given.values()), gradients, allow_unused=True)
    return dict(zip(given, found, strict=True))


def gradients(case: OpCase, *, do: Tensor | None, dht: Tensor | None, **changes: Any) -> Gradients:
    """The operator's for a case, whose arguments may be changed."""
    given = {**arguments(case), **changes}
    wanted = leaves(given)
    return pulled(chunk_gated_delta_rule(**{**given, **wanted}), wanted, (do, dht))


def golden_gradients(case: OpCase, do: Tensor, dht: Tensor, scale: float | None = None) -> Gradients:
    """The same from autograd of the float64 recurrence; slack tokens are zeros, for NaN would reach A_log."""
    inputs = op_inputs(case, 0)
    exact = {name: x.double().nan_to_num(0.0) for name in DIFFERENTIABLE if (x := getattr(inputs, name)) is not None}
    wanted = leaves(exact)
    inputs = replace(inputs, **wanted)
    g, beta = golden_gates(case, inputs)
    results = golden.recurrent_gated_delta_rule(
        inputs.q, inputs.k, inputs.v, g, beta, scale=scale, initial_state=inputs.initial_state,
        use_qk_l2norm=case.normalise, state_v_first=case.state_v_first, cu_seqlens=inputs.cu_seqlens,
    )  # fmt: skip
    return pulled(results, wanted, (do.double().nan_to_num(0.0), dht.double()))


def equal(a: Gradients, b: Gradients) -> bool:
    """Bit for bit."""
    return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)


def _equal(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b if a is None or b is None else same_bits(a.contiguous(), b.contiguous())
