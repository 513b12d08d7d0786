"""``loomgen::gdn_forward`` and ``loomgen::gdn_backward``: operators of torch, so that torch.compile sees opaque calls.

Their kernels for CUDA are :mod:`~loomgen.ops.device` and :mod:`~loomgen.ops.device_backward`, those for the CPU the
emulator.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from loomgen.ops.arguments import (
    Arguments,
    check_scale,
    check_shapes,
    check_state,
    check_tensors,
    check_types,
    has_subclasses,
)
from loomgen.ops.autograd import (
    PLACES,
    Runner,
    differentiable,
    dispatched_backward,
    gradients,
    remember,
    wants_gradients,
)
from loomgen.ops.backward import BackwardCall, Gradients, backward, new_results, result_shapes
from loomgen.ops.checks import checked_lengths
from loomgen.ops.device import device_forward
from loomgen.ops.device_backward import device_backward
from loomgen.ops.dispatch import SCAN_VARIANTS, select
from loomgen.ops.forward import Forward, forward, most_saved_bytes
from loomgen.ops.library import any_registry, check_backend, library_of
from loomgen.ops.packed import call_shape, state_shape
from loomgen.ops.sequences import check_vector
from loomgen.ops.workspace import Save

_FORWARD, _BACKWARD = "gdn_forward", "gdn_backward"
_FORWARD_SCHEMA = (
    f"{_FORWARD}(Tensor q, Tensor k, Tensor v, Tensor? g, Tensor beta, float? scale, Tensor? initial_state, "
    "bool output_final_state, bool normalise, bool state_v_first, Tensor? cu_seqlens, Tensor? cu_seqlens_cpu, "
    "Tensor? chunk_indices, Tensor? A_log, Tensor? dt_bias, bool sigmoid_of_beta, bool allow_neg_eigval, "
    "bool checked, str? save) -> Tensor[]"
)
"""The fields of Arguments in their order, then ``checked`` and ``save``. Returns ``o`` and, on request, the final state
and what is saved: a list, since a schema has no results that may be left out."""

_BACKWARD_SCHEMA = (
    f"{_BACKWARD}(Tensor do, Tensor? dht, Tensor v, Tensor? g, Tensor? beta, float scale, Tensor? initial_state, "
    "Tensor? cu_seqlens, Tensor? cu_seqlens_cpu, Tensor? A_log, Tensor? dt_bias, Tensor saved, int key_heads, "
    "bool normalise, bool state_v_first, bool allow_neg_eigval, str save, bool of_inputs, bool of_state) -> Tensor[]"
)
"""The fields of BackwardCall. Returns the gradients that Gradients would have, in its order, without those left out."""


def gdn_forward(call: Arguments, checked: bool, save: Save) -> tuple[Tensor, Tensor | None]:
    """The operator on a GPU's tensors; ``checked`` looks at every offset and gate, which waits for the GPU.

    Where nobody watches torch's dispatcher its kernel is called as it is, which saves the detour through it.
    """
    check_backend("cuda", call.q.device)
    try:
        if is_watched(call):
            return observed_forward(call, checked, save)
        check_scale(call.scale)
        if wants_gradients(call):
            return differentiable(_CHECKED if checked else _ON_GPU, call, save)
        return _run(call, checked, None)[:2]
    except (AttributeError, RuntimeError):
        check_tensors({**call.tensors(), **call.offsets()})
        raise


def observed_forward(call: Arguments, checked: bool, save: Save) -> tuple[Tensor, Tensor | None]:
    """The operator on any device, through torch's dispatcher."""
    check_scale(call.scale)
    check_tensors({**call.tensors(), **call.offsets()})
    o, *final = _OPERATOR(*call, checked, save if wants_gradients(call) else None)
    return o, final[0] if call.output_final_state else None


def is_watched(call: Arguments) -> bool:
    """Whether something wants to see the operator: a compiler, a mode such as fake tensors, a tensor subclass."""
    return torch.compiler.is_compiling() or _get_current_dispatch_mode() is not None or has_subclasses(call)


def _run(call: Arguments, checked: bool, save: Save | None, *, is_roomy: bool = False) -> Forward:
    if checked or not call.q.is_cuda:
        checked_lengths(call, "cuda", checked)
    return device_forward(call.q.get_device()).run(call, save, is_roomy=is_roomy)


def _run_backward(call: BackwardCall, plan: Hashable = None) -> Gradients:
    return device_backward(call.v.get_device()).run(call, plan)


_ON_GPU = Runner(forward=lambda call, save: _run(call, False, save), backward=_run_backward)
_CHECKED = Runner(forward=lambda call, save: _run(call, True, save), backward=_run_backward)


def _forward_on_gpu(*values: Any) -> list[Tensor]:
    *fields, checked, save = values
    return _present(_run(Arguments(*fields), checked, save, is_roomy=True)[:3])


def _forward_on_cpu(*values: Any) -> list[Tensor]:
    *fields, checked, save = values
    call = Arguments(*fields)
    found = forward(call, checked_lengths(call, None, checked), library_of(None), save=save, is_roomy=True)
    return _present(found[:3])


def _forward_shapes(*values: Any) -> list[Tensor]:
    """What the operator returns, without contents: results are contiguous, however ``v`` lies. Raises what a call would
    that only looks at dtypes and shapes."""
    *fields, _, save = values
    call = Arguments(*fields)
    check_types(call)
    check_shapes(call)
    if call.cu_seqlens is not None:
        check_vector("cu_seqlens", call.cu_seqlens)
    n_sequences = call.q.shape[0] if call.cu_seqlens is None else call.cu_seqlens.shape[0] - 1
    check_state(call, n_sequences)
    o = torch.empty(call.v.shape, dtype=call.v.dtype, device=call.v.device)
    shape = state_shape(call, n_sequences)
    final = None if shape is None else torch.empty(shape, dtype=torch.float32, device=call.v.device)
    saved = None if save is None else _saved_shape(call, n_sequences, save)
    return _present((o, final, saved))


def _present(values: Iterable[Tensor | None]) -> list[Tensor]:
    return [x for x in values if x is not None]


def _saved_shape(call: Arguments, n_sequences: int, save: Save) -> Tensor:
    """What a forward saves, as large as it may be whatever the lengths: no contents, and no lengths, are known here."""
    shape = call_shape(call, n_sequences, keeps_lengths=True)
    kernels = select(any_registry(), shape, SCAN_VARIANTS[0])  # no guard on n_sequences: sizes are the same
    n_bytes = most_saved_bytes(kernels, call, n_sequences, save)
    return torch.empty(n_bytes, dtype=torch.uint8, device=call.q.device)


def _backward_on_gpu(*values: Any) -> list[Tensor]:
    return _present(_run_backward(BackwardCall(*values)))


def _backward_on_cpu(*values: Any) -> list[Tensor]:
    return _present(backward(BackwardCall(*values), library_of(None)))


def _backward_shapes(*values: Any) -> list[Tensor]:
    call = BackwardCall(*values)
    return list(new_results(result_shapes(call), call.v.device, has_slack=False).values())


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    *fields, _, save = inputs
    call = Arguments(*fields)
    ctx.has_final = call.output_final_state
    if save is not None:
        remember(ctx, call, save, output[-1])


def _differentiate(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    """The rule of ``gdn_forward``, by way of ``gdn_backward``."""
    if not hasattr(ctx, "key_heads"):
        raise RuntimeError("gdn_forward: save is None, expected minimal or states where gradients are asked for")
    needed = [ctx.needs_input_grad[place] for place in PLACES]
    found = gradients(ctx, grads[0], grads[1] if ctx.has_final else None, needed, dispatched_backward)
    every: list[Any] = [None] * len(ctx.needs_input_grad)
    for place, gradient in zip(PLACES, found, strict=True):
        every[place] = gradient
    return tuple(every)


def _refuse_second_derivatives(ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    """The rule of ``gdn_backward``."""
    raise NotImplementedError("gdn_backward: has no derivative: gradients of gradients are not supported")


def _define() -> torch.library.Library:
    library = torch.library.Library("loomgen", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name, schema, on_gpu, on_cpu, shapes in (
        (_FORWARD, _FORWARD_SCHEMA, _forward_on_gpu, _forward_on_cpu, _forward_shapes),
        (_BACKWARD, _BACKWARD_SCHEMA, _backward_on_gpu, _backward_on_cpu, _backward_shapes),
    ):
        library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
        library.impl(name, on_gpu, "CUDA")  # type: ignore[no-untyped-call]
        library.impl(name, on_cpu, "CPU")  # type: ignore[no-untyped-call]
        torch.library.register_fake(f"loomgen::{name}", shapes, lib=library)
    torch.library.register_autograd(f"loomgen::{_FORWARD}", _differentiate, setup_context=_setup_context, lib=library)
    torch.library.register_autograd(f"loomgen::{_BACKWARD}", _refuse_second_derivatives, lib=library)
    return library


_LIBRARY = _define()
"""The operators are defined for as long as this lives."""

_OPERATOR = torch.ops.loomgen.gdn_forward.default
