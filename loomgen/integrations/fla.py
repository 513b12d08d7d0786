"""loomgen as a backend of flash-linear-attention's dispatch.

After :func:`register` FLA's own ``chunk_gated_delta_rule``, and with it its layers, runs on loomgen where loomgen
supports the call, forward and backward, and on FLA's own path otherwise. ``FLA_LOOMGEN=0`` turns it off at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from loomgen import ops
from loomgen.integrations.optional import MissingPackage, imported
from loomgen.ops.dispatch import ACTIVATIONS, CHUNK, HEAD_DIMS, RAW
from loomgen.runtime.kernels import UnsupportedDevice, target_of

OPERATION = "gated_delta_rule"
"""FLA's name for the group of functions that the backend is for."""


class FlaCall(NamedTuple):
    """The arguments of FLA's ``chunk_gated_delta_rule``, in its order; those after ``cp_context`` by keyword alone.

    With any others, deprecated ones such as ``transpose_state_layout`` among them, making one is a TypeError, which FLA
    takes for a refusal.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor | None
    beta: Tensor
    scale: float | None = None
    initial_state: Tensor | None = None
    output_final_state: bool | None = False
    use_qk_l2norm_in_kernel: bool | None = False
    use_beta_sigmoid_in_kernel: bool | None = False
    allow_neg_eigval: bool | None = False
    state_v_first: bool | None = False
    cu_seqlens: Tensor | None = None
    cu_seqlens_cpu: Tensor | None = None
    chunk_indices: Tensor | None = None
    cp_context: object | None = None
    use_gate_in_kernel: bool | None = False
    A_log: Tensor | None = None
    dt_bias: Tensor | None = None
    chunk_size: int = CHUNK


class Adapter:
    """What a backend of FLA is asked; its base class there asks about the environment and that the package exists."""

    backend_type = "loomgen"
    package_name = "loomgen"
    env_var = "FLA_LOOMGEN"
    default_enable = True
    priority = 1
    """Before every other backend for NVIDIA's GPUs: who registers loomgen wants it."""

    def chunk_gated_delta_rule_verifier(self, *arguments: Any, **options: Any) -> tuple[bool, str | None]:
        """Whether loomgen takes the call, and why not. Looks at no value and waits for nothing."""
        reason = why_not(FlaCall(*arguments, **options))
        return reason is None, reason

    def chunk_gated_delta_rule(self, *arguments: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
        return run(FlaCall(*arguments, **options))


def register() -> None:
    """Makes loomgen a backend of the FLA that is installed; once more changes nothing.

    Raises MissingPackage without FLA, or with one from before its dispatch knew gated delta rules (0.5.2).
    """
    dispatch = _dispatch()
    backend = type("LoomgenBackend", (Adapter, dispatch.BaseBackend), {})
    if hasattr(dispatch, "register"):
        dispatch.register(OPERATION)(backend)
    else:
        _old_registry(dispatch).register(backend())


def _dispatch() -> ModuleType:
    try:
        return import_module("fla.backends")
    except ImportError as error:
        is_older = isinstance(error, ModuleNotFoundError) and error.name in ("fla", "fla.backends")
        return imported("fla.ops.backends" if is_older else "fla.backends", "fla")  # where it was before 0.6


def _old_registry(dispatch: ModuleType) -> Any:
    registries = dispatch.BackendRegistry
    registries.ensure_initialized(OPERATION)
    try:
        return registries._registries[OPERATION]
    except KeyError:
        raise MissingPackage(f"fla: its dispatch has no {OPERATION}; 0.5.2 is the first that does") from None


def run(call: FlaCall) -> tuple[Tensor, Tensor | None]:
    """``o`` and the final state, by loomgen. What FLA takes in narrower dtypes than loomgen is widened first, which
    changes no value, and what FLA takes for true or false becomes that.
    """
    gate_is_raw, step_is_raw = bool(call.use_gate_in_kernel), bool(call.use_beta_sigmoid_in_kernel)
    return ops.chunk_gated_delta_rule(
        call.q, call.k, call.v,
        call.g if call.g is None or gate_is_raw else call.g.float(),
        call.beta if step_is_raw or call.beta.dtype is not torch.float16 else call.beta.float(),
        call.scale,
        None if call.initial_state is None else call.initial_state.float(),
        bool(call.output_final_state),
        bool(call.use_qk_l2norm_in_kernel),
        step_is_raw,
        bool(call.allow_neg_eigval),
        bool(call.state_v_first),
        call.cu_seqlens, call.cu_seqlens_cpu, call.chunk_indices,
        use_gate_in_kernel=gate_is_raw, A_log=call.A_log, dt_bias=call.dt_bias,
    )  # fmt: skip


def why_not(call: FlaCall) -> str | None:
    """Why loomgen leaves ``call`` to FLA; None where it takes it. What is wrong with any is for loomgen to say."""
    return next(_reasons(call), None)


def _reasons(call: FlaCall) -> Iterator[str]:
    if call.cp_context is not None:
        yield "cp_context: context parallelism is not supported"
    if call.chunk_size != CHUNK:
        yield f"chunk_size: {call.chunk_size}, supported is {CHUNK}"
    if not call.use_gate_in_kernel and not (call.A_log is None and call.dt_bias is None):
        yield "A_log and dt_bias are not ignored without use_gate_in_kernel"
    yield from _dtype_reasons(call)
    yield from _dim_reasons(call)
    reason = _device_reason(call.q.device)
    if reason is not None:
        yield reason


def _dtype_reasons(call: FlaCall) -> Iterator[str]:
    q = call.q
    if q.dtype not in ACTIVATIONS or call.k.dtype is not q.dtype or call.v.dtype is not q.dtype:
        yield f"q, k, v: {q.dtype}, {call.k.dtype}, {call.v.dtype}, supported is one of {_listed(ACTIVATIONS)}"
    for name, x in (("g", call.g), ("beta", call.beta), ("initial_state", call.initial_state)):
        if x is not None and x.dtype not in RAW:
            yield f"{name}: {x.dtype}, supported is one of {_listed(RAW)}"


def _dim_reasons(call: FlaCall) -> Iterator[str]:
    key_dim, value_dim = call.q.shape[-1], call.v.shape[-1]
    if key_dim not in HEAD_DIMS or value_dim != key_dim:
        yield f"head dims: {key_dim} and {value_dim}, supported is one of {_listed(HEAD_DIMS)} for both"


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))


@cache
def _device_reason(device: torch.device) -> str | None:
    """On a CPU the emulator runs."""
    if device.type == "cpu":
        return None
    if device.type != "cuda" or torch.version.cuda is None:
        return f"q: on {device}, supported are NVIDIA's GPUs"
    try:
        target_of(torch.cuda.get_device_capability(device), device.index or 0)
    except UnsupportedDevice as error:
        return str(error)
    return None
