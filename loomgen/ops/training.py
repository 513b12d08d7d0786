"""The memory that a call takes in training, for a caller who asks before it."""

from __future__ import annotations

from typing import NamedTuple

import torch

from loomgen.ops.asked import check_asked
from loomgen.ops.backward import BackwardCall, backward_layout, backward_shape
from loomgen.ops.batch import Batch
from loomgen.ops.dispatch import select
from loomgen.ops.library import any_registry
from loomgen.ops.placed import META
from loomgen.ops.workspace import Save, check_save, counted_chunks, plan_forward


class TrainingBytes(NamedTuple):
    """Of one call: ``saved`` lives from its forward to its backward; ``forward`` and ``backward`` are the workspaces,
    each of which lives while that runs."""

    saved: int
    forward: int
    backward: int


def training_bytes(
    *,
    n_tokens: int,
    n_sequences: int = 1,
    key_heads: int,
    value_heads: int,
    head_dim: int = 128,
    dtype: torch.dtype = torch.bfloat16,
    n_chunks: int | None = None,
    host_lengths: bool = True,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    save: Save = "minimal",
) -> TrainingBytes:
    """Bytes that ``chunk_gated_delta_rule`` allocates beside its results and gradients for a call that is
    differentiated in all of its arguments.

    The arguments are those of ``workspace_bytes``, and ``use_qk_l2norm_in_kernel`` and ``save`` of the call. Not
    counted: window tables that plans keep, copies of inputs and of ``do`` whose strides a kernel cannot read, and
    inputs that autograd keeps alive. Where torch.compile sees the call, ``saved`` is that of the most chunks. Raises
    TypeError and ValueError as a call does.
    """
    check_asked(
        n_tokens=n_tokens, n_sequences=n_sequences, key_heads=key_heads, value_heads=value_heads, head_dim=head_dim,
        dtype=dtype, n_chunks=n_chunks, host_lengths=host_lengths, use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
        use_gate_in_kernel=use_gate_in_kernel, use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
    )  # fmt: skip
    check_save(save)
    tokens = (1, n_tokens, value_heads)
    call = _call(
        v=torch.empty(*tokens, head_dim, dtype=dtype, device=META),
        g=torch.empty(tokens, dtype=dtype, device=META) if use_gate_in_kernel else None,
        beta=torch.empty(tokens, dtype=dtype, device=META) if use_beta_sigmoid_in_kernel else None,
        n_sequences=n_sequences,
        key_heads=key_heads,
        normalise=use_qk_l2norm_in_kernel,
        save=save,
    )
    counted = counted_chunks(n_tokens, n_sequences, n_chunks if host_lengths else None)
    batch = Batch(n_sequences=n_sequences, n_chunks=counted, n_used=n_tokens, tables={})
    registry = any_registry()
    layout = backward_layout(registry, call, batch, on_device=not host_lengths)
    forward = select(registry, backward_shape(call, n_sequences, on_device=not host_lengths))
    scratch = plan_forward(forward, layout.sizes, save).scratch
    return TrainingBytes(layout.saved.n_bytes, scratch.n_bytes, layout.workspace.n_bytes)


def _call(
    *,
    v: torch.Tensor,
    g: torch.Tensor | None,
    beta: torch.Tensor | None,
    n_sequences: int,
    key_heads: int,
    normalise: bool,
    save: Save,
) -> BackwardCall:
    """A backward of a call without states, which take no memory but that of results; raw gates have rates."""
    return BackwardCall(
        do=v, dht=None, v=v, g=g, beta=beta, scale=1.0, initial_state=None,
        cu_seqlens=torch.empty(n_sequences + 1, dtype=torch.int32, device=META), cu_seqlens_cpu=None,
        A_log=None if g is None else torch.empty(v.shape[2], dtype=torch.float32, device=META), dt_bias=None,
        saved=torch.empty(0, dtype=torch.uint8, device=META), key_heads=key_heads, normalise=normalise,
        state_v_first=False, allow_neg_eigval=False, save=save, of_inputs=True, of_state=False,
    )  # fmt: skip
