"""The tensors of a call as kernels see them: packed tokens, states with values first, under the names of the specs."""

from __future__ import annotations

import torch
from torch import Tensor

from loomgen.ops.arguments import Arguments
from loomgen.ops.dispatch import CHUNK, CallShape
from loomgen.runtime.bind import Value
from loomgen.runtime.tables import most_chunks

_EPS = 1e-6
"""Added to a squared norm before its root."""

_VECTOR_BYTES = 16
"""Kernels read rows of q, k, v and do in vectors of this size."""

_ROWS = ("q", "k", "v", "do")


def call_shape(
    arguments: Arguments, n_sequences: int, *, on_device: bool = False, keeps_lengths: bool = False
) -> CallShape:
    """``on_device``: only the GPU knows the lengths; ``keeps_lengths``: a backward will follow."""
    heads, head_dim = arguments.v.shape[2:]
    return CallShape(
        n_sequences=n_sequences,
        value_heads=heads,
        head_dim=head_dim,
        activation=arguments.q.dtype,
        step=torch.float32 if arguments.sigmoid_of_beta else arguments.beta.dtype,
        offsets=arguments.cu_seqlens.dtype if on_device and arguments.cu_seqlens is not None else None,
        raw_gate=arguments.g.dtype if arguments.A_log is not None and arguments.g is not None else None,
        raw_step=arguments.beta.dtype if arguments.sigmoid_of_beta else None,
        keeps_lengths=keeps_lengths and arguments.normalise,
    )


def call_sizes(arguments: Arguments, n_sequences: int, n_chunks: int) -> dict[str, int]:
    """The run-time dims by name."""
    n_batch, n_steps, key_heads = arguments.q.shape[:3]
    return dims(
        n_tokens=n_batch * n_steps,
        n_sequences=n_sequences,
        n_chunks=n_chunks,
        key_heads=key_heads,
        value_heads=arguments.v.shape[2],
    )


def most_chunks_of(arguments: Arguments, n_sequences: int) -> int:
    """The most chunks that a call can have, by its shapes alone."""
    n_batch, n_steps = arguments.q.shape[:2]
    if arguments.cu_seqlens is None:
        return n_batch * -(-n_steps // CHUNK)
    return most_chunks(n_batch * n_steps, n_sequences, CHUNK)


def dims(*, n_tokens: int, n_sequences: int, n_chunks: int, key_heads: int, value_heads: int) -> dict[str, int]:
    """The run-time dims by name; NS cells for each offset, and NR runs of tokens, where the GPU makes the tables."""
    return {
        "T": n_tokens,
        "N": n_sequences,
        "NC": n_chunks,
        "H": key_heads,
        "HV": value_heads,
        "NB": n_sequences + 1,
        "NS": max(1, -(-n_chunks // (n_sequences + 1))),
        "R": n_tokens,
        "NR": -(-n_tokens // CHUNK),
    }


def packed_inputs(arguments: Arguments, zero: Tensor) -> dict[str, Value]:
    """Tensors and scalars by name; views wherever a kernel can read them.

    ``zero``, f32 without a dim, is the gate of every token where the caller gave none. Raw gates and steps
    have two names here; what `gates` makes of them takes the place of ``gate`` and ``step``.
    """
    state, heads = arguments.initial_state, arguments.v.shape[2]
    n_tokens = arguments.q.shape[0] * arguments.q.shape[1]
    g = arguments.g
    gate = zero.expand(n_tokens, heads) if g is None else packed("gate", g)
    step = packed("step", arguments.beta)
    return {
        "q": packed("q", arguments.q),
        "k": packed("k", arguments.k),
        "v": packed("v", arguments.v),
        "gate": gate,
        "step": step,
        "a": None if arguments.A_log is None else gate,
        "b": step if arguments.sigmoid_of_beta else None,
        "A_log": arguments.A_log,
        "dt_bias": arguments.dt_bias,
        "largest_step": 2.0 if arguments.allow_neg_eigval else 1.0,
        "offsets": arguments.cu_seqlens,
        "h0": None if state is None else values_first(state, arguments.state_v_first),
        "normalise": arguments.normalise,
        "eps": _EPS,
        "scale": arguments.q.shape[3] ** -0.5 if arguments.scale is None else float(arguments.scale),
    }


def packed(name: str, x: Tensor) -> Tensor:
    """``x`` [B, T, ..] as [B*T, ..].

    A copy only where batch and tokens do not lie at one stride, or rows of q, k, v and do are not vectors in memory.
    """
    joined = x.flatten(0, 1)
    if name not in _ROWS or _has_vector_rows(joined):
        return joined
    return joined.clone(memory_format=torch.contiguous_format)


def _has_vector_rows(x: Tensor) -> bool:
    steps = [stride for size, stride in zip(x.shape[:-1], x.stride()[:-1], strict=True) if size > 1]
    places = [x.data_ptr(), *(stride * x.element_size() for stride in steps)]
    return x.stride(-1) == 1 and all(place % _VECTOR_BYTES == 0 for place in places)


def vector_offset(x: Tensor) -> int:
    """Bytes from the last vector boundary to the start of ``x``: all that :func:`packed` asks of an address."""
    return x.data_ptr() % _VECTOR_BYTES


def state_shape(arguments: Arguments, n_sequences: int) -> tuple[int, ...] | None:
    """That of the final state as the caller sees it; None where it is not asked for."""
    if not arguments.output_final_state:
        return None
    key_dim, (heads, value_dim) = arguments.q.shape[3], arguments.v.shape[2:]
    dims = (value_dim, key_dim) if arguments.state_v_first else (key_dim, value_dim)
    return n_sequences, heads, *dims


def values_first(state: Tensor, state_v_first: bool) -> Tensor:
    """The state as kernels see it, [N, HV, V, K]; never a copy."""
    return state if state_v_first else state.transpose(-1, -2)
