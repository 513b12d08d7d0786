"""The forward on a GPU: everything but addresses is decided once for calls that are alike, and kept as a plan.

A warm call looks its plan up, allocates its results and one workspace, and launches. What was checked when the plan was
made is part of the plan's key, so a call that finds a plan has passed those checks.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from loomgen.ops.arguments import Arguments, check_inputs, check_state, check_types
from loomgen.ops.batch import Batch, bounded_batch, known_batch
from loomgen.ops.dispatch import select
from loomgen.ops.packed import (
    call_shape,
    call_sizes,
    packed,
    packed_inputs,
    state_shape,
    values_first,
    vector_offset,
)
from loomgen.ops.sequences import check_vector, lengths_on_host, sequences_on_device
from loomgen.ops.workspace import Workspace, plan_workspace
from loomgen.runtime.bind import Value
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import CudaDriver
from loomgen.runtime.kernels import DeviceKernels
from loomgen.runtime.launch import LaunchPlan, prepare_plan, refuse_recording
from loomgen.runtime.plans import PlanCache
from loomgen.runtime.resident import ResidentTables, upload

_PLANS = 256
"""Kept for each device: a few kilobytes of host memory, and the window tables on the GPU."""

_INPUTS = ("q", "k", "v", "gate", "step", "h0")
_CALLERS = (*_INPUTS, "o", "ht", "offsets", "A_log", "dt_bias")
"""The caller's tensors by their names in the specs, as a plan numbers them; the workspace is next."""

_ZERO = "zero"

_META = torch.device("meta")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardPlan:
    """How calls that are alike run. ``places`` says for each address of ``launches`` which tensor it is in (by its
    number: the callers', then the workspace) and how many bytes from its start.
    """

    launches: LaunchPlan
    places: tuple[tuple[int, int], ...]
    copied: tuple[int, ...]
    no_decay: Tensor
    workspace_bytes: int
    state_shape: tuple[int, ...] | None
    n_used: int
    n_tokens: int

    @property
    def captured(self) -> bool:
        return self.launches.captured

    def run(self, call: Arguments) -> tuple[Tensor, Tensor | None]:
        """Launches on the current stream. Allocates ``o``, the final state, the workspace and ``copied`` inputs."""
        v, device = call.v, call.q.device
        o = v.new_empty(v.shape)
        if self.n_used < self.n_tokens:
            o[:, self.n_used :].zero_()
        shape = self.state_shape
        final = None if shape is None else torch.empty(shape, dtype=torch.float32, device=device)
        workspace = torch.empty(self.workspace_bytes, dtype=torch.uint8, device=device)
        gate = self.no_decay if call.g is None else call.g
        tensors = [
            call.q, call.k, v, gate, call.beta, call.initial_state, o, final, call.cu_seqlens,
            call.A_log, call.dt_bias, workspace,
        ]  # fmt: skip
        for i in self.copied:
            tensors[i] = _copy(i, tensors[i])
        starts = [0 if x is None else x.data_ptr() for x in tensors]
        self.launches.run([starts[i] + offset for i, offset in self.places])
        return o, final


def _copy(i: int, x: Tensor | None) -> Tensor:
    assert x is not None
    return packed(_INPUTS[i], x)


class DeviceForward:
    """The forward on one GPU. Threads may share it."""

    def __init__(self, kernels: DeviceKernels, capacity: int = _PLANS) -> None:
        self._kernels = kernels
        self._plans: PlanCache[ForwardPlan] = PlanCache(capacity)

    def run(self, call: Arguments) -> tuple[Tensor, Tensor | None]:
        """``o`` and, on request, the final state; gradients are not asked for.

        The lengths are what the host knows: ``cu_seqlens_cpu``, or B times T without ``cu_seqlens``. Where only the GPU
        knows them it makes the window tables, and a plan holds for any lengths. Nothing waits for the GPU. Raises
        TypeError and ValueError, and LoomgenError where a CUDA graph is recorded for which a new plan would be needed.
        """
        offsets = _host_offsets(call)
        plan = self._plans.get(() if offsets is None else offsets, _key(call), lambda: self._plan(call, offsets))
        return plan.run(call)

    def _plan(self, call: Arguments, offsets: Tensor | None) -> ForwardPlan:
        check_types(call)
        check_inputs(call)
        on_device = call.cu_seqlens is not None and offsets is None
        batch = _bounded(call) if on_device else known_batch(lengths_on_host(call, offsets))
        check_state(call, batch.n_sequences)
        refuse_recording(self._kernels)
        kernels = select(self._kernels.registry, call_shape(call, batch.n_sequences, on_device=on_device))
        sizes = call_sizes(call, batch.n_sequences, batch.n_chunks)
        workspace = plan_workspace(kernels, sizes)
        tables = upload({**batch.tables, _ZERO: torch.zeros(1, dtype=torch.int32)}, call.q.device)
        no_decay = _zero(tables)
        inputs = packed_inputs(call, no_decay)
        shape = state_shape(call, batch.n_sequences)
        given = {**sizes, **inputs, **_outputs(call, shape), **workspace.allocate(_META)}
        launches = prepare_plan(self._kernels, kernels.in_order(), given, tables)
        return ForwardPlan(
            launches=launches,
            places=_places(launches.names, workspace),
            copied=_copied(call, inputs),
            no_decay=no_decay,
            workspace_bytes=workspace.n_bytes,
            state_shape=shape,
            n_used=batch.n_used,
            n_tokens=sizes["T"],
        )


def _host_offsets(call: Arguments) -> Tensor | None:
    """``cu_seqlens`` as the host knows it."""
    host = call.cu_seqlens_cpu
    if call.cu_seqlens is None or host is None:
        return None
    check_vector("cu_seqlens_cpu", host)
    if not host.is_cpu:
        raise ValueError(f"cu_seqlens_cpu: on {host.device}, expected cpu")
    return host


def _bounded(call: Arguments) -> Batch:
    n_batch, n_steps = call.q.shape[:2]
    return bounded_batch(n_batch * n_steps, sequences_on_device(call))


def _outputs(call: Arguments, final_state: tuple[int, ...] | None) -> dict[str, Value]:
    """The results by name, without memory."""
    o = torch.empty(call.v.shape, dtype=call.v.dtype, device=_META).flatten(0, 1)
    state = None if final_state is None else torch.empty(final_state, device=_META)
    return {"o": o, "tail": o, "ht": None if state is None else values_first(state, call.state_v_first)}


def _key(call: Arguments) -> Hashable:
    """All that decides a plan beside the lengths: a call with the same key differs in addresses and contents alone."""
    q, k, v = call.q, call.k, call.v
    return (
        _layout(q),
        _layout(k),
        _layout(v),
        _layout(call.g),
        _layout(call.beta),
        _layout(call.initial_state),
        _layout(call.cu_seqlens),
        _layout(call.chunk_indices),
        call.cu_seqlens_cpu is None,
        (vector_offset(q), vector_offset(k), vector_offset(v)),
        (call.scale, call.output_final_state, call.normalise, call.state_v_first),
        (_layout(call.A_log), _layout(call.dt_bias)),
        (call.sigmoid_of_beta, call.allow_neg_eigval),
    )


def _layout(x: Tensor | None) -> Hashable:
    return None if x is None else (x.dtype, x.get_device(), x.shape, x.stride())


def _zero(tables: ResidentTables) -> Tensor:
    """A zero of f32, which has the bits of an integer's. It lives, and may be read, as the tables do."""
    return tables.tensors[_ZERO][0].view(torch.float32)


def _places(names: tuple[str, ...], workspace: Workspace) -> tuple[tuple[int, int], ...]:
    callers = {name: (i, 0) for i, name in enumerate(_CALLERS)}
    callers |= {"tail": callers["o"], "a": callers["gate"], "b": callers["step"]}
    intermediates = {name: (len(_CALLERS), place.offset) for name, place in workspace.places.items()}
    known = {**callers, **intermediates}
    return tuple(known[name] for name in names)


def _copied(call: Arguments, inputs: dict[str, Value]) -> tuple[int, ...]:
    """The numbers of the inputs that kernels cannot read where they lie."""
    originals = (call.q, call.k, call.v, call.g, call.beta)
    return tuple(
        i
        for i, (name, original) in enumerate(zip(_INPUTS, originals, strict=False))
        if original is not None and isinstance(used := inputs[name], Tensor) and used.data_ptr() != original.data_ptr()
    )


@cache
def device_forward(device: int) -> DeviceForward:
    """The forward on ``cuda:<device>`` that a process shares; raises DriverError and UnsupportedDevice."""
    return DeviceForward(DeviceKernels(device, CudaDriver(), CubinStore()))
