"""The backward on a GPU: everything but addresses is decided once for calls that are alike, and kept as a plan."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from loomgen.ops.backward import (
    BackwardCall,
    BackwardLayout,
    Gradients,
    ResultShapes,
    backward_inputs,
    backward_layout,
    gradients_of,
    new_results,
    result_shapes,
    seen_by_kernels,
)
from loomgen.ops.batch import Batch, bounded_batch, known_batch
from loomgen.ops.device import META, PLANS, device_kernels, host_offsets, layout_of, places_in
from loomgen.ops.packed import packed, vector_offset
from loomgen.runtime.kernels import DeviceKernels
from loomgen.runtime.launch import LaunchPlan, prepare_plan, refuse_recording
from loomgen.runtime.plans import PlanCache
from loomgen.runtime.resident import upload

_INPUTS = ("v", "do", "h0", "dht", "a", "b", "A_log", "dt_bias")
"""The caller's tensors by their names in the specs, as a plan numbers them; the results are next, then the workspace
and what the forward has saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardPlan:
    """How calls that are alike run. ``places`` says for each address of ``launches`` which tensor it is in and how many
    bytes from its start; ``copied`` are the inputs that kernels cannot read where they lie."""

    launches: LaunchPlan
    places: tuple[tuple[int, int], ...]
    copied: tuple[int, ...]
    results: ResultShapes
    workspace_bytes: int
    has_slack: bool

    @property
    def captured(self) -> bool:
        return self.launches.captured

    def run(self, call: BackwardCall) -> Gradients:
        """Launches on the current stream. Allocates the gradients, the workspace and ``copied`` inputs."""
        device = call.v.device
        results = new_results(self.results, device, has_slack=self.has_slack)
        workspace = torch.empty(self.workspace_bytes, dtype=torch.uint8, device=device)
        tensors = [
            call.v, call.do, call.initial_state, call.dht, call.g, call.beta, call.A_log, call.dt_bias,
            *results.values(), workspace, call.saved,
        ]  # fmt: skip
        for i in self.copied:
            tensors[i] = _copy(i, tensors[i])
        starts = [0 if x is None else x.data_ptr() for x in tensors]
        self.launches.run([starts[i] + offset for i, offset in self.places])
        return gradients_of(results)


def _copy(i: int, x: Tensor | None) -> Tensor:
    assert x is not None
    return packed(_INPUTS[i], x)


class DeviceBackward:
    """The backward on one GPU. Threads may share it."""

    def __init__(self, kernels: DeviceKernels, capacity: int = PLANS) -> None:
        self._kernels = kernels
        self._plans: PlanCache[BackwardPlan] = PlanCache(capacity)

    def run(self, call: BackwardCall) -> Gradients:
        """The gradients. The forward has checked all arguments; lengths are known as it knew them."""
        if call.do is None:
            call = call._replace(do=torch.zeros_like(call.v, memory_format=torch.contiguous_format))
        offsets = host_offsets(call.cu_seqlens, call.cu_seqlens_cpu)
        lengths = () if offsets is None else offsets
        plan = self._plans.get(lengths, _key(call), lambda: self._plan(call, offsets))
        return plan.run(call)

    def _plan(self, call: BackwardCall, offsets: Tensor | None) -> BackwardPlan:
        refuse_recording(self._kernels)
        on_device = call.cu_seqlens is not None and offsets is None
        batch = _batch(call, offsets)
        layout = backward_layout(self._kernels.registry, call, batch, on_device=on_device)
        tables = {} if on_device else {**batch.tables, "seq_chunks": batch.tables["seq_chunk_start"]}
        inputs = backward_inputs(call)
        shapes = result_shapes(call)
        results = new_results(shapes, META, has_slack=False)
        given = {**layout.sizes, **inputs, **seen_by_kernels(call, results)}
        for part in (layout.workspace, layout.saved):
            given |= part.allocate(META)
        launches = prepare_plan(self._kernels, layout.kernels.in_order(), given, upload(tables, call.v.device))
        originals = (call.v, call.do)
        return BackwardPlan(
            launches=launches,
            places=_places(launches.names, tuple(results), layout),
            copied=tuple(i for i, x in enumerate(originals) if _is_copied(inputs[_INPUTS[i]], x)),
            results=shapes,
            workspace_bytes=layout.workspace.n_bytes,
            has_slack=batch.n_used < layout.sizes["T"] or on_device,
        )


def _batch(call: BackwardCall, offsets: Tensor | None) -> Batch:
    n_batch, n_steps = call.v.shape[:2]
    if call.cu_seqlens is None:
        return known_batch((n_steps,) * n_batch)
    if offsets is None:
        return bounded_batch(n_batch * n_steps, len(call.cu_seqlens) - 1)
    return known_batch(offsets.diff().tolist())


def _is_copied(used: object, original: Tensor | None) -> bool:
    return isinstance(used, Tensor) and original is not None and used.data_ptr() != original.data_ptr()


def _places(names: tuple[str, ...], results: tuple[str, ...], layout: BackwardLayout) -> tuple[tuple[int, int], ...]:
    callers = {name: (i, 0) for i, name in enumerate((*_INPUTS, *results))}
    known = callers | places_in((layout.workspace, layout.saved), len(callers))
    return tuple(known[name] for name in names)


def _key(call: BackwardCall) -> Hashable:
    """All that decides a plan beside the lengths: a call with the same key differs in addresses and contents alone."""
    do = call.do
    assert do is not None
    return (
        layout_of(call.v),
        layout_of(do),
        layout_of(call.dht),
        layout_of(call.g),
        layout_of(call.beta),
        layout_of(call.initial_state),
        layout_of(call.cu_seqlens),
        layout_of(call.A_log),
        layout_of(call.dt_bias),
        call.cu_seqlens_cpu is None,
        (vector_offset(call.v), vector_offset(do)),
        call[call._fields.index("key_heads") :],
        call.scale,
    )


@cache
def device_backward(device: int) -> DeviceBackward:
    """The backward on ``cuda:<device>`` that a process shares; raises DriverError and UnsupportedDevice."""
    return DeviceBackward(device_kernels(device))
