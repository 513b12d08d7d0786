"""The backward on a library of kernels, and what it shares with the backward on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from loomgen.ops.batch import Batch, known_batch
from loomgen.ops.dispatch import CallShape, ScanVariant, select
from loomgen.ops.dispatch_backward import BackwardKernels, select_backward
from loomgen.ops.library import Library
from loomgen.ops.packed import dims, packed, values_first, vector_offset
from loomgen.ops.workspace import Save, Workspace, plan_backward, plan_forward
from loomgen.registry import Registry
from loomgen.runtime.bind import Value


class BackwardCall(NamedTuple):
    """One backward: the gradient of o, that of the final state, None for zeros, and what the forward was called with.

    ``g`` and ``beta`` only where they came in raw; ``saved`` is what the forward left under ``save``. ``of_inputs``:
    more than the gradient of the initial state is asked for; ``of_state``: that one is.
    """

    do: Tensor
    dht: Tensor | None
    v: Tensor
    g: Tensor | None
    beta: Tensor | None
    scale: float
    initial_state: Tensor | None
    cu_seqlens: Tensor | None
    cu_seqlens_cpu: Tensor | None
    A_log: Tensor | None
    dt_bias: Tensor | None
    saved: Tensor
    key_heads: int
    normalise: bool
    state_v_first: bool
    allow_neg_eigval: bool
    save: Save
    of_inputs: bool
    of_state: bool


class Gradients(NamedTuple):
    """Those of the arguments, laid out as these are; None for what was not asked for. ``beta`` is fp32 unless raw."""

    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    g: Tensor | None = None
    beta: Tensor | None = None
    A_log: Tensor | None = None
    dt_bias: Tensor | None = None
    initial_state: Tensor | None = None


_GRADIENTS = {
    "dq": "q",
    "dk": "k",
    "dv": "v",
    "dg": "g",
    "da": "g",
    "dbeta": "beta",
    "db": "beta",
    "dA_log": "A_log",
    "ddt_bias": "dt_bias",
    "dh0": "initial_state",
}
"""What each result of the specs is the gradient of."""

ResultShapes = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""Shapes and dtypes of what is returned, by the names of the specs, in the order of Gradients."""


class BackwardLayout(NamedTuple):
    """How a backward runs but for addresses: its kernels, the run-time dims, the tensors between stages, and those that
    the forward has saved."""

    kernels: BackwardKernels
    sizes: dict[str, int]
    workspace: Workspace
    saved: Workspace


def backward(call: BackwardCall, library: Library, *, variant: ScanVariant | None = None) -> Gradients:
    """The gradients; lengths are read off ``cu_seqlens``. ``variant`` overrides the choice of both scans."""
    batch = known_batch(known_lengths(call, call.cu_seqlens))
    layout = backward_layout(library.registry, call, batch, on_device=False, variant=variant)
    library.prepare(layout.kernels.in_order())
    results = new_results(result_shapes(call), call.v.device, has_slack=batch.n_used < layout.sizes["T"])
    given: dict[str, Value] = {
        **layout.sizes,
        **backward_inputs(call),
        **layout.saved.views(as_left(call.saved)),
        **layout.workspace.allocate(call.v.device),
        **batch.tables,
        "seq_chunks": batch.tables["seq_chunk_start"],
        **seen_by_kernels(call, results),
    }
    for kernel in layout.kernels.in_order():
        library.launch(kernel, given)
    return gradients_of(tuple(results.values()), places_of(results))


def as_left(saved: Tensor) -> Tensor:
    """What the forward has saved, as it lay: hooks may have brought it back to where no vector starts."""
    is_as_left = vector_offset(saved) == 0 and saved.is_contiguous()
    return saved if is_as_left else saved.clone(memory_format=torch.contiguous_format)


def known_lengths(call: BackwardCall, offsets: Tensor | None) -> Sequence[int]:
    """Those of the sequences of ``call``, from its offsets on the CPU."""
    if offsets is None:
        return (call.v.shape[1],) * call.v.shape[0]
    lengths: list[int] = offsets.diff().tolist()
    return lengths


def backward_layout(
    registry: Registry, call: BackwardCall, batch: Batch, *, on_device: bool, variant: ScanVariant | None = None
) -> BackwardLayout:
    """The layout for calls like ``call``; ``on_device``: only the GPU knows the lengths."""
    shape = backward_shape(call, batch.n_sequences, on_device=on_device)
    kernels = select_backward(
        registry, shape, has_states=call.save == "states", of_inputs=call.of_inputs, variant=variant
    )
    n_batch, n_steps, value_heads = call.v.shape[:3]
    sizes = dims(
        n_tokens=n_batch * n_steps,
        n_sequences=batch.n_sequences,
        n_chunks=batch.n_chunks,
        key_heads=call.key_heads,
        value_heads=value_heads,
    )
    return BackwardLayout(
        kernels=kernels,
        sizes=sizes,
        workspace=plan_backward(kernels, sizes, {*result_shapes(call), *_left_out(call)}),
        saved=plan_forward(select(registry, shape), sizes, call.save).saved,
    )


def backward_shape(call: BackwardCall, n_sequences: int, *, on_device: bool) -> CallShape:
    """Of calls like ``call``, as their forward has it but for the dtype of steps, on which nothing saved depends."""
    return CallShape(
        n_sequences=n_sequences,
        value_heads=call.v.shape[2],
        head_dim=call.v.shape[3],
        activation=call.v.dtype,
        step=torch.float32,
        offsets=call.cu_seqlens.dtype if on_device and call.cu_seqlens is not None else None,
        raw_gate=None if call.g is None else call.g.dtype,
        raw_step=None if call.beta is None else call.beta.dtype,
        keeps_lengths=call.normalise,
    )


def _left_out(call: BackwardCall) -> set[str]:
    """What the kernels could write and nobody asks for."""
    of_gates = {"da", "dA_log_parts", "ddt_bias_parts"} if call.g is None else set[str]()
    return {"ht", "dh0", *of_gates, *(("db",) if call.beta is None else ())}


def backward_inputs(call: BackwardCall) -> dict[str, Value]:
    """The caller's tensors and scalars by the names of the specs; views wherever a kernel can read them."""
    state, dht = call.initial_state, call.dht
    return {
        "v": packed("v", call.v),
        "do": packed("do", call.do),
        "a": None if call.g is None else packed("a", call.g),
        "b": None if call.beta is None else packed("b", call.beta),
        "A_log": call.A_log,
        "dt_bias": call.dt_bias,
        "h0": None if state is None else values_first(state, call.state_v_first),
        "dht": None if dht is None else values_first(dht, call.state_v_first),
        "largest_step": 2.0 if call.allow_neg_eigval else 1.0,
        "scale": call.scale,
    }


def result_shapes(call: BackwardCall) -> ResultShapes:
    found: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
    if call.of_inputs:
        v, heads = call.v, tuple(call.v.shape[:3])
        keys = (*v.shape[:2], call.key_heads, v.shape[3])
        found |= {"dq": (keys, v.dtype), "dk": (keys, v.dtype), "dv": (tuple(v.shape), v.dtype)}
        found |= {"dg": (heads, torch.float32)} if call.g is None else {"da": (heads, call.g.dtype)}
        found |= {"dbeta": (heads, torch.float32)} if call.beta is None else {"db": (heads, call.beta.dtype)}
    if call.of_inputs and call.A_log is not None:
        found |= {name: (tuple(call.A_log.shape), torch.float32) for name in ("dA_log", "ddt_bias")}
    if call.of_state and call.initial_state is not None:
        found["dh0"] = (tuple(call.initial_state.shape), torch.float32)
    return found


def new_results(shapes: ResultShapes, device: torch.device, *, has_slack: bool) -> dict[str, Tensor]:
    """Memory for what is returned; zeros where there are tokens of no sequence, which no kernel writes."""
    make: Callable[..., Tensor] = torch.zeros if has_slack else torch.empty
    return {name: make(shape, dtype=dtype, device=device) for name, (shape, dtype) in shapes.items()}


def seen_by_kernels(call: BackwardCall, results: dict[str, Tensor]) -> dict[str, Value]:
    """``results`` as kernels write them: packed tokens, states with values first."""
    return {
        name: values_first(x, call.state_v_first) if name == "dh0" else x.flatten(0, 1) if x.dim() > 1 else x
        for name, x in results.items()
    }


def places_of(results: Iterable[str]) -> tuple[int | None, ...]:
    """Which of ``results``, by their names, is each of Gradients."""
    numbers = {_GRADIENTS[name]: i for i, name in enumerate(results)}
    return tuple(numbers.get(name) for name in Gradients._fields)


def gradients_of(results: Sequence[Tensor], places: Sequence[int | None]) -> Gradients:
    return Gradients(*[None if place is None else results[place] for place in places])


def named_gradients(call: BackwardCall, found: Sequence[Tensor]) -> Gradients:
    """The gradients of ``call`` from a list of those that there are, in order."""
    return gradients_of(found, places_of(result_shapes(call)))
