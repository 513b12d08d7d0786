"""``loomgen::gdn_forward``: the forward as an operator of torch, so that torch.compile sees one opaque call.

Its kernel for CUDA is :mod:`~loomgen.ops.device`, that for the CPU the emulator.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from loomgen.ops.arguments import Arguments, check_no_gradients, check_scale, check_tensors
from loomgen.ops.checks import checked_lengths
from loomgen.ops.device import device_forward
from loomgen.ops.forward import forward
from loomgen.ops.library import check_backend, library_of
from loomgen.ops.packed import state_shape

_NAME = "gdn_forward"
_SCHEMA = (
    f"{_NAME}(Tensor q, Tensor k, Tensor v, Tensor? g, Tensor beta, float? scale, Tensor? initial_state, "
    "bool output_final_state, bool normalise, bool state_v_first, Tensor? cu_seqlens, Tensor? cu_seqlens_cpu, "
    "Tensor? chunk_indices, Tensor? A_log, Tensor? dt_bias, bool sigmoid_of_beta, bool allow_neg_eigval, "
    "bool checked) -> Tensor[]"
)
"""The fields of Arguments in their order, then ``checked``. Returns ``o`` and, on request, the final state: a list,
since a schema has no results that may be left out."""


def gdn_forward(call: Arguments, checked: bool) -> tuple[Tensor, Tensor | None]:
    """The operator on a GPU's tensors; ``checked`` looks at every offset and gate, which waits for the GPU.

    Where nobody watches torch's dispatcher its kernel is called as it is, which saves the detour through it.
    """
    check_backend("cuda", call.q.device)
    check_scale(call.scale)
    try:
        _refuse_gradients(call)
        o, *final = _dispatched(call, checked) if _is_watched(call.q) else _run(call, checked)
    except (AttributeError, RuntimeError):
        check_tensors({**call.tensors(), **call.offsets()})
        raise
    return o, final[0] if final else None


def _is_watched(q: Tensor) -> bool:
    """Whether something wants to see the operator: a compiler, a mode such as fake tensors, a tensor subclass."""
    return torch.compiler.is_compiling() or type(q) is not Tensor or _get_current_dispatch_mode() is not None


def _dispatched(call: Arguments, checked: bool) -> list[Tensor]:
    results: list[Tensor] = _OPERATOR(*call, checked)
    return results


def _refuse_gradients(call: Arguments) -> None:
    if not torch.is_grad_enabled():
        return
    g, state = call.g, call.initial_state
    A_log, dt_bias = call.A_log, call.dt_bias
    if (
        call.q.requires_grad
        or call.k.requires_grad
        or call.v.requires_grad
        or call.beta.requires_grad
        or (g is not None and g.requires_grad)
        or (state is not None and state.requires_grad)
        or (A_log is not None and A_log.requires_grad)
        or (dt_bias is not None and dt_bias.requires_grad)
    ):
        check_no_gradients(call.tensors())


def _on_gpu(*values: Any) -> list[Tensor]:
    *fields, checked = values
    return _run(Arguments(*fields), checked)


def _run(call: Arguments, checked: bool) -> list[Tensor]:
    if checked or not call.q.is_cuda:
        checked_lengths(call, "cuda", checked)
    return _results(*device_forward(call.q.get_device()).run(call))


def _on_cpu(*values: Any) -> list[Tensor]:
    *fields, checked = values
    call = Arguments(*fields)
    return _results(*forward(call, checked_lengths(call, None, checked), library_of(None)))


def _results(o: Tensor, final: Tensor | None) -> list[Tensor]:
    return [o] if final is None else [o, final]


def _shapes(*values: Any) -> list[Tensor]:
    """What the operator returns, without contents: results are contiguous, however ``v`` lies."""
    call = Arguments(*values[:-1])
    n_sequences = call.q.shape[0] if call.cu_seqlens is None else call.cu_seqlens.shape[0] - 1
    o = torch.empty(call.v.shape, dtype=call.v.dtype, device=call.v.device)
    shape = state_shape(call, n_sequences)
    return [o] if shape is None else [o, torch.empty(shape, dtype=torch.float32, device=call.v.device)]


def _define() -> torch.library.Library:
    library = torch.library.Library("loomgen", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define(_SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))  # type: ignore[no-untyped-call]
    library.impl(_NAME, _on_gpu, "CUDA")  # type: ignore[no-untyped-call]
    library.impl(_NAME, _on_cpu, "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"loomgen::{_NAME}", _shapes, lib=library)
    return library


_LIBRARY = _define()
"""The operator is defined for as long as this lives."""

_OPERATOR = torch.ops.loomgen.gdn_forward.default
