"""The backward on a GPU: everything but addresses is decided once for calls that are alike, and kept as a plan."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from loomgen.ops.allocation import Allocation, allocation
from loomgen.ops.backward import (
    BackwardCall,
    Gradients,
    as_left,
    backward_inputs,
    backward_layout,
    gradients_of,
    known_lengths,
    new_results,
    places_of,
    result_shapes,
    seen_by_kernels,
)
from loomgen.ops.batch import Batch, bounded_batch, known_batch
from loomgen.ops.device import PLANS, device_kernels, host_offsets, layout_of
from loomgen.ops.packed import vector_offset
from loomgen.ops.placed import META, PlacedLaunches, placed
from loomgen.ops.sequences import only_gpu_knows
from loomgen.runtime.kernels import DeviceKernels
from loomgen.runtime.launch import prepare_plan, refuse_recording
from loomgen.runtime.plans import Lengths, PlanCache
from loomgen.runtime.resident import upload

_INPUTS = ("v", "do", "h0", "dht", "a", "b", "A_log", "dt_bias")
"""The caller's tensors by their names in the specs, as a plan numbers them; the results are next, then the workspace
and what the forward has saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardPlan:
    """How calls that are alike run. ``places`` says which of the ``results`` is each of Gradients."""

    launches: PlacedLaunches
    results: tuple[Allocation, ...]
    places: tuple[int | None, ...]
    workspace: Allocation
    has_slack: bool

    @property
    def captured(self) -> bool:
        return self.launches.captured

    def run(self, call: BackwardCall) -> Gradients:
        """Launches on the current stream. Allocates the gradients, the workspace and copies of inputs."""
        results = [new() for new in self.results]
        if self.has_slack:
            for x in results:
                x.zero_()
        self.launches.run([
            call.v, call.do, call.initial_state, call.dht, call.g, call.beta, call.A_log, call.dt_bias,
            *results, self.workspace(), as_left(call.saved),
        ])  # fmt: skip
        return gradients_of(results, self.places)


class DeviceBackward:
    """The backward on one GPU. Threads may share it."""

    def __init__(self, kernels: DeviceKernels, capacity: int = PLANS) -> None:
        self._kernels = kernels
        self._plans: PlanCache[BackwardPlan] = PlanCache(capacity)

    def run(self, call: BackwardCall, forward: Hashable = None) -> Gradients:
        """The gradients. The forward has checked all arguments; lengths are known as it knew them.

        ``forward`` is the forward's plan where it is known: it stands for all that the forward was called with, and
        lives on in the key of a plan that was found by it.
        """
        lengths: Lengths = ()
        if forward is None:
            lengths, forward = _lengths(call), _forward_key(call)
        plan = self._plans.get(lengths, (forward, *_own_key(call)), lambda: self._plan(call))
        return plan.run(call)

    def _plan(self, call: BackwardCall) -> BackwardPlan:
        refuse_recording(self._kernels)
        offsets = host_offsets(call.cu_seqlens, call.cu_seqlens_cpu)
        on_device = only_gpu_knows(call.cu_seqlens, offsets)
        batch = _batch(call, None if on_device else known_lengths(call, offsets))
        layout = backward_layout(self._kernels.registry, call, batch, on_device=on_device)
        tables = {} if on_device else {**batch.tables, "seq_chunks": batch.tables["seq_chunk_start"]}
        inputs, device = backward_inputs(call), call.v.device
        shapes = result_shapes(call)
        results = new_results(shapes, META, has_slack=False)
        given = {**layout.sizes, **inputs, **seen_by_kernels(call, results)}
        parts = (layout.workspace, layout.saved)
        for part in parts:
            given |= part.allocate(META)
        launches = prepare_plan(self._kernels, layout.kernels.in_order(), given, upload(tables, device))
        numbers = {name: i for i, name in enumerate((*_INPUTS, *results))}
        originals = {"v": call.v, "do": call.do, "a": call.g, "b": call.beta}
        return BackwardPlan(
            launches=placed(launches, numbers, parts, inputs=inputs, originals=originals),
            results=tuple(allocation(shape, dtype, device) for shape, dtype in shapes.values()),
            places=places_of(shapes),
            workspace=allocation((layout.workspace.n_bytes,), torch.uint8, device),
            has_slack=batch.n_used < layout.sizes["T"] or on_device,
        )


def _batch(call: BackwardCall, lengths: Sequence[int] | None) -> Batch:
    if lengths is not None:
        return known_batch(lengths)
    assert call.cu_seqlens is not None
    return bounded_batch(call.v.shape[0] * call.v.shape[1], len(call.cu_seqlens) - 1)


def _lengths(call: BackwardCall) -> Lengths:
    offsets = host_offsets(call.cu_seqlens, call.cu_seqlens_cpu)
    return () if offsets is None else offsets


def _own_key(call: BackwardCall) -> tuple[Hashable, ...]:
    """All that decides a plan beside what the forward was called with: a call with the same key differs in addresses
    and contents alone. What the forward read may lie elsewhere now: hooks may have moved what autograd has saved."""
    return (
        layout_of(call.do),
        layout_of(call.dht),
        layout_of(call.v),
        layout_of(call.g),
        layout_of(call.beta),
        layout_of(call.initial_state),
        layout_of(call.A_log),
        layout_of(call.dt_bias),
        vector_offset(call.do),
        vector_offset(call.v),
        call.of_inputs,
        call.of_state,
    )


def _forward_key(call: BackwardCall) -> Hashable:
    """What the forward was called with, beside the lengths, as far as a backward depends on it."""
    return (
        call.scale,
        call.key_heads,
        layout_of(call.cu_seqlens),
        call.cu_seqlens_cpu is None,
        (call.normalise, call.state_v_first, call.allow_neg_eigval, call.save),
    )


@cache
def device_backward(device: int) -> DeviceBackward:
    """The backward on ``cuda:<device>`` that a process shares; raises DriverError and UnsupportedDevice."""
    return DeviceBackward(device_kernels(device))
