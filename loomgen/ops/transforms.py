"""Derivatives and batches that the operator does not have: refused by name instead of being dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from loomgen.ops.arguments import Arguments


def refuse_transforms(call: Arguments) -> None:
    """Raises NotImplementedError, a RuntimeError, for a tensor of torch.func and for one with a tangent."""
    if torch.compiler.is_compiling():
        return
    if torch._C._are_functorch_transforms_active():
        for name, x in call.tensors().items():
            if isinstance(x, Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(x):
                raise NotImplementedError(
                    f"{name}: a tensor of torch.func, expected a plain one: vmap, grad and jvp are not supported"
                )
            if torch.is_grad_enabled() and isinstance(x, Tensor) and x.requires_grad:
                raise NotImplementedError(f"{name}: requires a gradient inside of torch.func, which is not supported")
    if forward_ad._current_level >= 0:
        for name, x in call.tensors().items():
            if isinstance(x, Tensor) and forward_ad.unpack_dual(x).tangent is not None:  # type: ignore[no-untyped-call]
                raise NotImplementedError(f"{name}: has a tangent, expected none: forward mode is not supported")


def refuse_batched(do: Tensor | None, dht: Tensor | None) -> None:
    """Raises NotImplementedError for gradients of many losses at once, such as ``is_grads_batched`` makes."""
    if torch.compiler.is_compiling():
        return
    of = torch._C._functorch
    for name, x in (("o", do), ("final_state", dht)):
        if x is not None and (of.is_legacy_batchedtensor(x) or of.is_batchedtensor(x)):
            raise NotImplementedError(f"gradient of {name}: batched, expected that of one loss: vmap is not supported")


def without_second_derivative(gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """The gradients where they are recorded themselves: their derivative is an error, not zero."""
    given = (x.detach().requires_grad_() for x in gradients if x is not None)
    found = iter(_Refused.apply(*given))  # type: ignore[no-untyped-call]
    return tuple(None if x is None else next(found) for x in gradients)


class _Refused(torch.autograd.Function):
    """The identity, without a derivative."""

    @staticmethod
    def forward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.view_as(x) for x in gradients)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Any, ...]:
        raise NotImplementedError("chunk_gated_delta_rule: gradients of its gradients are not supported")
