"""The forward on a library of kernels: from checked arguments to the stages, in order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from loomgen.ops.arguments import Arguments
from loomgen.ops.batch import Batch, bounded_batch, known_batch
from loomgen.ops.dispatch import ForwardKernels, ScanVariant, select
from loomgen.ops.library import Library
from loomgen.ops.packed import call_shape, call_sizes, most_chunks_of, packed_inputs, state_shape, values_first
from loomgen.ops.sequences import sequences_on_device
from loomgen.ops.workspace import ForwardMemory, Save, plan_forward
from loomgen.runtime.bind import Value


class Forward(NamedTuple):
    """``o`` [B, T, HV, V]; the final state and what a backward starts from, bytes of uint8, where asked for.

    ``plan``, where there are plans, is the one that it ran by; a backward knows by it what the forward was called with.
    """

    o: Tensor
    final: Tensor | None
    saved: Tensor | None
    plan: Hashable = None


def forward(
    arguments: Arguments,
    lengths: Sequence[int] | None,
    library: Library,
    *,
    save: Save | None = None,
    is_roomy: bool = False,
    variant: ScanVariant | None = None,
) -> Forward:
    """The results for arguments whose sequences have ``lengths``; None leaves it to kernels to read them off
    ``cu_seqlens``.

    ``is_roomy``: what is saved has the size that any lengths may need. ``variant`` overrides the choice of the state
    scan. Nothing is checked here.
    """
    batch = call_batch(arguments, lengths)
    shape = call_shape(arguments, batch.n_sequences, on_device=lengths is None, keeps_lengths=save is not None)
    kernels = select(library.registry, shape, variant)
    library.prepare(kernels.in_order())
    sizes = call_sizes(arguments, batch.n_sequences, batch.n_chunks)
    device = arguments.q.device
    o = _output(arguments.v, n_slack=sizes["T"] - batch.n_used)
    of_state = state_shape(arguments, batch.n_sequences)
    final = None if of_state is None else torch.empty(of_state, dtype=torch.float32, device=device)
    memory = plan_forward(kernels, sizes, save)
    n_saved = saved_bytes(memory, kernels, arguments, batch.n_sequences, save, is_roomy=is_roomy)
    new = torch.zeros if is_roomy else torch.empty  # whoever compares what is saved finds no room that differs
    saved = None if n_saved is None else new(n_saved, dtype=torch.uint8, device=device)
    given: dict[str, Value] = {
        **sizes,
        **packed_inputs(arguments, torch.zeros((), dtype=torch.float32, device=device)),
        **memory.scratch.allocate(device),
        **({} if saved is None else memory.saved.views(saved)),
        **batch.tables,
        "o": o.flatten(0, 1),
        "tail": o.flatten(0, 1),
        "ht": None if final is None else values_first(final, arguments.state_v_first),
    }
    for kernel in kernels.in_order():
        library.launch(kernel, given)
    return Forward(o, final, saved)


def saved_bytes(
    memory: ForwardMemory,
    kernels: ForwardKernels,
    arguments: Arguments,
    n_sequences: int,
    save: Save | None,
    *,
    is_roomy: bool,
) -> int | None:
    """Bytes that a forward saves in its ``memory``; ``is_roomy``: those that any lengths may need."""
    if save is None:
        return None
    return most_saved_bytes(kernels, arguments, n_sequences, save) if is_roomy else memory.saved.n_bytes


def most_saved_bytes(kernels: ForwardKernels, arguments: Arguments, n_sequences: int, save: Save) -> int:
    """Bytes that a forward saves, by the shapes of ``arguments`` alone: with the most chunks that they allow."""
    sizes = call_sizes(arguments, n_sequences, most_chunks_of(arguments, n_sequences))
    return plan_forward(kernels, sizes, save).saved.n_bytes


def call_batch(arguments: Arguments, lengths: Sequence[int] | None) -> Batch:
    """The sequences of a call; ``lengths`` are None where only the GPU knows them."""
    if lengths is not None:
        return known_batch(lengths)
    return bounded_batch(arguments.q.shape[0] * arguments.q.shape[1], sequences_on_device(arguments))


def _output(v: Tensor, *, n_slack: int) -> Tensor:
    """Memory for ``o``; zeros where there are tokens of no sequence, which no kernel writes."""
    make = torch.zeros if n_slack else torch.empty
    return make(v.shape, dtype=v.dtype, device=v.device)
