"""The operator's rule of differentiation, whoever runs its kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from loomgen.ops.arguments import Arguments, has_subclasses
from loomgen.ops.backward import BackwardCall, Gradients, named_gradients
from loomgen.ops.forward import Forward
from loomgen.ops.transforms import refuse_batched, without_second_derivative
from loomgen.ops.workspace import Save

DIFFERENTIABLE = ("q", "k", "v", "g", "beta", "initial_state", "A_log", "dt_bias")
"""The arguments that have gradients, in their order in Arguments."""

PLACES = tuple(Arguments._fields.index(name) for name in DIFFERENTIABLE)
"""Where they stand there."""


@dataclass(frozen=True, slots=True)
class Runner:
    """What runs a call's kernels: the results of a forward, with what its backward needs, and the gradients, given the
    forward's plan."""

    forward: Callable[[Arguments, Save], Forward]
    backward: Callable[[BackwardCall, Hashable], Gradients]


def wants_gradients(call: Arguments) -> bool:
    """Whether autograd records this call."""
    if not torch.is_grad_enabled():
        return False
    for i in PLACES:
        x = call[i]
        if isinstance(x, Tensor) and x.requires_grad:
            return True
    return False


def differentiable(runner: Runner, call: Arguments, save: Save) -> tuple[Tensor, Tensor | None]:
    """``o`` and the final state of ``call``, recorded by autograd."""
    results: tuple[Tensor, Tensor | None] = _Rule.apply(runner, call, save, *(call[i] for i in PLACES))  # type: ignore[no-untyped-call]
    return results


class _Rule(torch.autograd.Function):
    """Its tensors are passed a second time, one by one, for autograd to see them."""

    @staticmethod
    def forward(
        ctx: Any, runner: Runner, call: Arguments, save: Save, *_: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        o, final, saved, plan = runner.forward(call, save)
        assert saved is not None
        remember(ctx, call, save, saved)
        ctx.run = lambda call: runner.backward(call, plan)
        return o, final

    @staticmethod
    def backward(ctx: Any, do: Tensor | None, dht: Tensor | None) -> tuple[Any, ...]:
        return None, None, None, *gradients(ctx, do, dht, ctx.needs_input_grad[3:], ctx.run)


def remember(ctx: Any, call: Arguments, save: Save, saved: Tensor) -> None:
    """Keeps what a backward of ``call`` needs. q and k are not among it: ``saved`` has them as the stages read them."""
    is_raw_gate = call.A_log is not None
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(
        call.v,
        call.g if is_raw_gate else None,
        call.beta if call.sigmoid_of_beta else None,
        call.initial_state,
        call.cu_seqlens,
        call.cu_seqlens_cpu,
        call.A_log,
        call.dt_bias,
        saved,
    )
    *_, ctx.key_heads, head_dim = call.q.shape
    ctx.scale = head_dim**-0.5 if call.scale is None else float(call.scale)
    ctx.flags = (call.normalise, call.state_v_first, call.allow_neg_eigval, save)
    ctx.beta_dtype = call.beta.dtype


def dispatched_backward(call: BackwardCall) -> Gradients:
    """By torch's dispatcher, which knows what tensor subclasses hold."""
    return named_gradients(call, torch.ops.loomgen.gdn_backward.default(*call))


def gradients(
    ctx: Any,
    do: Tensor | None,
    dht: Tensor | None,
    needed: Sequence[bool],
    run: Callable[[BackwardCall], Gradients],
) -> tuple[Tensor | None, ...]:
    """The gradients of DIFFERENTIABLE, None where they are not ``needed`` or zero."""
    if do is None and dht is None:
        return (None,) * len(DIFFERENTIABLE)
    if torch.is_grad_enabled():
        with torch.no_grad():
            found_once = gradients(ctx, do, dht, needed, run)
        return without_second_derivative(found_once)
    refuse_batched(do, dht)
    *of_inputs, of_state, of_A, of_bias = needed
    v, g, beta, state, cu_seqlens, cu_seqlens_cpu, A_log, dt_bias, saved = ctx.saved_tensors
    normalise, state_v_first, allow_neg_eigval, save = ctx.flags
    do = torch.zeros_like(v, memory_format=torch.contiguous_format) if do is None else do.resolve_neg()
    dht = None if dht is None else dht.resolve_neg()
    call = BackwardCall(
        do, dht, v, g, beta, ctx.scale, state, cu_seqlens, cu_seqlens_cpu, A_log, dt_bias, saved, ctx.key_heads,
        normalise, state_v_first, allow_neg_eigval, save, of_inputs=any((*of_inputs, of_A, of_bias)), of_state=of_state,
    )  # fmt: skip
    found = (dispatched_backward if has_subclasses(call) else run)(call)
    d_beta = found.beta
    if d_beta is not None and d_beta.dtype is not ctx.beta_dtype:
        d_beta = d_beta.to(ctx.beta_dtype)
    every = (found.q, found.k, found.v, found.g, d_beta, found.initial_state, found.A_log, found.dt_bias)
    return tuple([x if is_needed else None for x, is_needed in zip(every, needed, strict=True)])
