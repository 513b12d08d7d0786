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

from loomgen.ops.allocation import Allocation, allocation
from loomgen.ops.arguments import Arguments, check_inputs, check_state, check_types
from loomgen.ops.dispatch import select
from loomgen.ops.dispatch_backward import kernels_of_kind
from loomgen.ops.forward import Forward, call_batch, saved_bytes
from loomgen.ops.packed import (
    call_shape,
    call_sizes,
    packed_inputs,
    state_shape,
    values_first,
    vector_offset,
)
from loomgen.ops.placed import META, PlacedLaunches, placed
from loomgen.ops.sequences import check_vector, lengths_on_host, only_gpu_knows
from loomgen.ops.workspace import Save, plan_forward
from loomgen.runtime.bind import Value
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import CudaDriver
from loomgen.runtime.kernels import DeviceKernels
from loomgen.runtime.launch import prepare_plan, refuse_recording
from loomgen.runtime.plans import PlanCache
from loomgen.runtime.resident import ResidentTables, upload

PLANS = 256
"""Kept for each device: a few kilobytes of host memory, and the window tables on the GPU."""

_CALLERS = ("q", "k", "v", "gate", "step", "h0", "o", "ht", "offsets", "A_log", "dt_bias")
"""The caller's tensors by their names in the specs, as a plan numbers them; the workspace is next, then what is saved.
"""

_NUMBERS = {name: i for i, name in enumerate(_CALLERS)}
_NUMBERS |= {"tail": _NUMBERS["o"], "a": _NUMBERS["gate"], "b": _NUMBERS["step"]}

_ZERO = "zero"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForwardPlan:
    """How calls that are alike run. No two are equal, so that one stands for the calls that it was made for."""

    launches: PlacedLaunches
    no_decay: Tensor
    o: Allocation
    final: Allocation | None
    workspace: Allocation
    saved: Allocation | None
    n_used: int
    n_tokens: int

    @property
    def captured(self) -> bool:
        return self.launches.captured

    def run(self, call: Arguments) -> Forward:
        """Launches on the current stream. Allocates the results, the workspace and ``copied`` inputs."""
        o = self.o()
        if self.n_used < self.n_tokens:
            o[:, self.n_used :].zero_()
        final = None if self.final is None else self.final()
        saved = None if self.saved is None else self.saved()
        gate = self.no_decay if call.g is None else call.g
        self.launches.run([
            call.q, call.k, call.v, gate, call.beta, call.initial_state, o, final, call.cu_seqlens,
            call.A_log, call.dt_bias, self.workspace(), saved,
        ])  # fmt: skip
        return Forward(o, final, saved, self)


class DeviceForward:
    """The forward on one GPU. Threads may share it."""

    def __init__(self, kernels: DeviceKernels, capacity: int = PLANS) -> None:
        self._kernels = kernels
        self._plans: PlanCache[ForwardPlan] = PlanCache(capacity)

    def run(self, call: Arguments, save: Save | None = None, *, is_roomy: bool = False) -> Forward:
        """``o`` and, on request, the final state, and with ``save`` what a backward starts from, which has the size
        that any lengths may need if it ``is_roomy``.

        The lengths are what the host knows: ``cu_seqlens_cpu``, or B times T without ``cu_seqlens``. Where only the GPU
        knows them it makes the window tables, and a plan holds for any lengths. Nothing waits for the GPU. Raises
        TypeError and ValueError, and LoomgenError where a CUDA graph is recorded for which a new plan would be needed.
        """
        offsets = host_offsets(call.cu_seqlens, call.cu_seqlens_cpu)
        key = (save, is_roomy, _key(call))
        lengths = () if offsets is None else offsets
        plan = self._plans.get(lengths, key, lambda: self._plan(call, offsets, save, is_roomy))
        return plan.run(call)

    def _plan(self, call: Arguments, offsets: Tensor | None, save: Save | None, is_roomy: bool) -> ForwardPlan:
        check_types(call)
        check_inputs(call)
        lengths = None if only_gpu_knows(call.cu_seqlens, offsets) else lengths_on_host(call, offsets)
        batch = call_batch(call, lengths)
        check_state(call, batch.n_sequences)
        refuse_recording(self._kernels)
        shape = call_shape(call, batch.n_sequences, on_device=lengths is None, keeps_lengths=save is not None)
        self._kernels.prepare(kernels_of_kind(self._kernels.registry, shape, trains=save is not None))
        kernels = select(self._kernels.registry, shape)
        sizes = call_sizes(call, batch.n_sequences, batch.n_chunks)
        memory = plan_forward(kernels, sizes, save)
        tables = upload({**batch.tables, _ZERO: torch.zeros(1, dtype=torch.int32, device="cpu")}, call.q.device)
        no_decay = _zero(tables)
        inputs = packed_inputs(call, no_decay)
        of_state = state_shape(call, batch.n_sequences)
        parts = (memory.scratch, memory.saved)
        given = {**sizes, **inputs, **_outputs(call, of_state)}
        for part in parts:
            given |= part.allocate(META)
        launches = prepare_plan(self._kernels, kernels.in_order(), given, tables)
        originals = {"q": call.q, "k": call.k, "v": call.v, "gate": call.g, "step": call.beta}
        device = call.q.device
        n_saved = saved_bytes(memory, kernels, call, batch.n_sequences, save, is_roomy=is_roomy)
        return ForwardPlan(
            launches=placed(launches, _NUMBERS, parts, inputs=inputs, originals=originals),
            no_decay=no_decay,
            o=allocation(call.v.shape, call.v.dtype, device),
            final=None if of_state is None else allocation(of_state, torch.float32, device),
            workspace=allocation((memory.scratch.n_bytes,), torch.uint8, device),
            saved=None if n_saved is None else allocation((n_saved,), torch.uint8, device),
            n_used=batch.n_used,
            n_tokens=sizes["T"],
        )


def host_offsets(cu_seqlens: Tensor | None, host: Tensor | None) -> Tensor | None:
    """``cu_seqlens`` as the host knows it."""
    if cu_seqlens is None or host is None:
        return None
    check_vector("cu_seqlens_cpu", host)
    if not host.is_cpu:
        raise ValueError(f"cu_seqlens_cpu: on {host.device}, expected cpu")
    return host


def _outputs(call: Arguments, final_state: tuple[int, ...] | None) -> dict[str, Value]:
    """The results by name, without memory."""
    o = torch.empty(call.v.shape, dtype=call.v.dtype, device=META).flatten(0, 1)
    state = None if final_state is None else torch.empty(final_state, dtype=torch.float32, device=META)
    return {"o": o, "tail": o, "ht": None if state is None else values_first(state, call.state_v_first)}


def _key(call: Arguments) -> Hashable:
    """All that decides a plan beside the lengths: a call with the same key differs in addresses and contents alone."""
    q, k, v = call.q, call.k, call.v
    return (
        layout_of(q),
        layout_of(k),
        layout_of(v),
        layout_of(call.g),
        layout_of(call.beta),
        layout_of(call.initial_state),
        layout_of(call.cu_seqlens),
        layout_of(call.chunk_indices),
        call.cu_seqlens_cpu is None,
        (vector_offset(q), vector_offset(k), vector_offset(v)),
        (call.scale, call.output_final_state, call.normalise, call.state_v_first),
        (layout_of(call.A_log), layout_of(call.dt_bias)),
        (call.sigmoid_of_beta, call.allow_neg_eigval),
    )


def layout_of(x: Tensor | None) -> Hashable:
    return None if x is None else (x.dtype, x.get_device(), x.shape, x.stride(), x.is_neg())


def _zero(tables: ResidentTables) -> Tensor:
    """A zero of f32, which has the bits of an integer's. It lives, and may be read, as the tables do."""
    return tables.tensors[_ZERO][0].view(torch.float32)


@cache
def device_forward(device: int) -> DeviceForward:
    """The forward on ``cuda:<device>`` that a process shares; raises DriverError and UnsupportedDevice."""
    return DeviceForward(device_kernels(device))


@cache
def device_kernels(device: int) -> DeviceKernels:
    """The kernels on ``cuda:<device>`` that a process shares; raises DriverError and UnsupportedDevice."""
    return DeviceKernels(device, CudaDriver(), CubinStore())
