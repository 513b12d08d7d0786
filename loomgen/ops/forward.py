"""The forward on a library of kernels: from checked arguments to the stages, in order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from loomgen.ops.arguments import Arguments
from loomgen.ops.batch import Batch, bounded_batch, known_batch
from loomgen.ops.dispatch import ScanVariant, select
from loomgen.ops.library import Library
from loomgen.ops.packed import call_shape, call_sizes, packed_inputs, state_shape, values_first
from loomgen.ops.sequences import sequences_on_device
from loomgen.ops.workspace import plan_workspace
from loomgen.runtime.bind import Value


def forward(
    arguments: Arguments, lengths: Sequence[int] | None, library: Library, *, variant: ScanVariant | None = None
) -> tuple[Tensor, Tensor | None]:
    """``o`` [B, T, HV, V] and, on request, the final state, of arguments whose sequences have ``lengths``; None leaves
    it to kernels to read them off ``cu_seqlens``.

    ``variant`` overrides the choice of the state scan. Nothing is checked here.
    """
    batch = _batch(arguments, lengths)
    kernels = select(library.registry, call_shape(arguments, batch.n_sequences, on_device=lengths is None), variant)
    library.prepare(kernels.in_order())
    sizes = call_sizes(arguments, batch.n_sequences, batch.n_chunks)
    device = arguments.q.device
    o = _output(arguments.v, n_slack=sizes["T"] - batch.n_used)
    shape = state_shape(arguments, batch.n_sequences)
    final = None if shape is None else torch.empty(shape, dtype=torch.float32, device=device)
    given: dict[str, Value] = {
        **sizes,
        **packed_inputs(arguments, torch.zeros((), device=device)),
        **plan_workspace(kernels, sizes).allocate(device),
        **batch.tables,
        "o": o.flatten(0, 1),
        "tail": o.flatten(0, 1),
        "ht": None if final is None else values_first(final, arguments.state_v_first),
    }
    for kernel in kernels.in_order():
        library.launch(kernel, given)
    return o, final


def _batch(arguments: Arguments, lengths: Sequence[int] | None) -> Batch:
    if lengths is not None:
        return known_batch(lengths)
    return bounded_batch(arguments.q.shape[0] * arguments.q.shape[1], sequences_on_device(arguments))


def _output(v: Tensor, *, n_slack: int) -> Tensor:
    """Memory for ``o``; zeros where there are tokens of no sequence, which no kernel writes."""
    make = torch.zeros if n_slack else torch.empty
    return make(v.shape, dtype=v.dtype, device=v.device)
