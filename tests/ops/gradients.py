"""Gradients of small calls of the operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from loomgen.ops import chunk_gated_delta_rule
from loomgen.ops.autograd import DIFFERENTIABLE
from loomgen.verify import OpCase, same_bits
from loomgen.verify.op import op_inputs
from loomgen.verify.op_gradients import output_gradients
from tests.ops.call import arguments

Gradients = dict[str, Tensor | None]
"""By argument; None where there is none."""

SMALL = OpCase(name="small", lengths=(15, 65), head_dim=64)
RAW = replace(SMALL, raw_gates=torch.bfloat16, raw_steps=torch.bfloat16, negative=True)


def cotangents(case: OpCase) -> tuple[Tensor, Tensor]:
    """Gradients of ``o``, NaN in the slack, and of the final state."""
    given = output_gradients(case, op_inputs(case, 0), 0)
    return given.do, given.dht


def leaves(given: dict[str, Any]) -> dict[str, Tensor]:
    """What of ``given`` can be differentiated in, where it lies, as leaves of a new graph."""
    tensors = {name: given.get(name) for name in DIFFERENTIABLE}
    return {name: x.detach().requires_grad_() for name, x in tensors.items() if x is not None}


def pulled(
    results: tuple[Tensor | None, ...],
    given: dict[str, Tensor],
    of: tuple[Tensor | None, ...],
    *,
    retain_graph: bool = False,
) -> Gradients:
    """The gradients of ``given`` from those ``of`` the results; a result whose gradient is None is not used."""
    used = [(x, dx) for x, dx in zip(results, of, strict=True) if x is not None and dx is not None]
    outputs, gradients = zip(*used, strict=True)
    inputs = tuple(given.values())
    found = torch.autograd.grad(outputs, inputs, gradients, retain_graph=retain_graph, allow_unused=True)
    return dict(zip(given, found, strict=True))


def gradients(case: OpCase, *, do: Tensor | None, dht: Tensor | None, **changes: Any) -> Gradients:
    """The operator's for a case, whose arguments may be changed."""
    given = {**arguments(case), **changes}
    wanted = leaves(given)
    return pulled(chunk_gated_delta_rule(**{**given, **wanted}), wanted, (do, dht))


def equal(a: Gradients, b: Gradients) -> bool:
    """Bit for bit."""
    return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)


def _equal(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b if a is None or b is None else same_bits(a.contiguous(), b.contiguous())
