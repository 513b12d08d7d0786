"""The forward: from checked arguments to the stages, in order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from loomgen.ops.arguments import Arguments
from loomgen.ops.dispatch import CHUNK, CallShape, ScanVariant, select
from loomgen.ops.library import Library
from loomgen.ops.workspace import plan_workspace
from loomgen.runtime.bind import Value
from loomgen.runtime.tables import window_tables

EPS = 1e-6
"""Added to a squared norm before its root."""

_VECTOR_BYTES = 16
"""Kernels read rows of q, k and v in vectors of this size."""


def forward(
    arguments: Arguments, lengths: Sequence[int], library: Library, *, variant: ScanVariant | None = None
) -> tuple[Tensor, Tensor | None]:
    """``o`` [B, T, HV, V] and, on request, the final state, of arguments whose sequences have ``lengths``.

    ``variant`` overrides the choice of the state scan. Nothing is checked here.
    """
    q, v = arguments.q, arguments.v
    shape = CallShape(
        n_sequences=len(lengths),
        value_heads=v.shape[2],
        head_dim=v.shape[3],
        activation=q.dtype,
        step=arguments.beta.dtype,
    )
    kernels = select(library.registry, shape, variant)
    library.prepare(kernels.in_order())
    tables = window_tables(lengths, CHUNK)
    n_tokens = q.shape[0] * q.shape[1]
    sizes = {
        "T": n_tokens,
        "N": len(lengths),
        "NC": len(tables.chunk_len),
        "H": q.shape[2],
        "HV": v.shape[2],
    }
    o = _output(v, n_slack=n_tokens - sum(lengths))
    final = _final_state(arguments, len(lengths))
    given: dict[str, Value] = {
        **_inputs(arguments, n_tokens),
        **plan_workspace(kernels, sizes).allocate(q.device),
        **tables.by_name(),
        "o": o.flatten(0, 1),
        "ht": None if final is None else _values_first(final, arguments.state_v_first),
    }
    for kernel in kernels.in_order():
        library.launch(kernel, given)
    return o, final


def _inputs(arguments: Arguments, n_tokens: int) -> dict[str, Value]:
    """The arguments under the names of the specs, in the packed layout; views wherever a kernel can read them."""
    state, heads = arguments.initial_state, arguments.v.shape[2]
    no_decay = torch.zeros((), device=arguments.q.device)
    g = no_decay.expand(n_tokens, heads) if arguments.g is None else arguments.g.flatten(0, 1)
    return {
        "q": _rows(arguments.q),
        "k": _rows(arguments.k),
        "v": _rows(arguments.v),
        "gate": g,
        "step": arguments.beta.flatten(0, 1),
        "h0": None if state is None else _values_first(state, arguments.state_v_first),
        "normalise": arguments.normalise,
        "eps": EPS,
        "scale": arguments.q.shape[3] ** -0.5 if arguments.scale is None else float(arguments.scale),
    }


def _rows(x: Tensor) -> Tensor:
    """``x`` [B, T, heads, dim] as [B*T, heads, dim]; a copy only where its rows are not vectors in memory."""
    packed = x.flatten(0, 1)
    return packed if _has_vector_rows(packed) else packed.clone(memory_format=torch.contiguous_format)


def _has_vector_rows(x: Tensor) -> bool:
    steps = [stride for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True) if size > 1]
    places = [x.data_ptr(), *(stride * x.element_size() for stride in steps)]
    return x.stride(-1) == 1 and all(place % _VECTOR_BYTES == 0 for place in places)


def _output(v: Tensor, *, n_slack: int) -> Tensor:
    """Memory for ``o``; zeros where there are tokens of no sequence, which no kernel writes."""
    make = torch.zeros if n_slack else torch.empty
    return make(v.shape, dtype=v.dtype, device=v.device)


def _final_state(arguments: Arguments, n_sequences: int) -> Tensor | None:
    if not arguments.output_final_state:
        return None
    key_dim, (heads, value_dim) = arguments.q.shape[3], arguments.v.shape[2:]
    dims = (value_dim, key_dim) if arguments.state_v_first else (key_dim, value_dim)
    return torch.empty(n_sequences, heads, *dims, dtype=torch.float32, device=arguments.q.device)


def _values_first(state: Tensor, state_v_first: bool) -> Tensor:
    """The state as kernels see it, [N, HV, V, K]; never a copy."""
    return state if state_v_first else state.transpose(-1, -2)
