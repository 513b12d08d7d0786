"""The forward on a library of kernels: from checked arguments to the stages, in order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from loomgen.ops.arguments import Arguments
from loomgen.ops.dispatch import CHUNK, ScanVariant, select
from loomgen.ops.library import Library
from loomgen.ops.packed import call_shape, call_sizes, packed_inputs, state_shape, values_first
from loomgen.ops.workspace import plan_workspace
from loomgen.runtime.bind import Value
from loomgen.runtime.tables import window_tables


def forward(
    arguments: Arguments, lengths: Sequence[int], library: Library, *, variant: ScanVariant | None = None
) -> tuple[Tensor, Tensor | None]:
    """``o`` [B, T, HV, V] and, on request, the final state, of arguments whose sequences have ``lengths``.

    ``variant`` overrides the choice of the state scan. Nothing is checked here.
    """
    kernels = select(library.registry, call_shape(arguments, len(lengths)), variant)
    library.prepare(kernels.in_order())
    tables = window_tables(lengths, CHUNK)
    sizes = call_sizes(arguments, len(lengths), len(tables.chunk_len))
    device = arguments.q.device
    o = _output(arguments.v, n_slack=sizes["T"] - sum(lengths))
    shape = state_shape(arguments, len(lengths))
    final = None if shape is None else torch.empty(shape, dtype=torch.float32, device=device)
    given: dict[str, Value] = {
        **packed_inputs(arguments, torch.zeros((), device=device)),
        **plan_workspace(kernels, sizes).allocate(device),
        **tables.by_name(),
        "o": o.flatten(0, 1),
        "ht": None if final is None else values_first(final, arguments.state_v_first),
    }
    for kernel in kernels.in_order():
        library.launch(kernel, given)
    return o, final


def _output(v: Tensor, *, n_slack: int) -> Tensor:
    """Memory for ``o``; zeros where there are tokens of no sequence, which no kernel writes."""
    make = torch.zeros if n_slack else torch.empty
    return make(v.shape, dtype=v.dtype, device=v.device)
