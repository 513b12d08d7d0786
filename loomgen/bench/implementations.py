"""Who is measured: loomgen and its peers, each behind the same call. The only place that knows a peer's interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor

from loomgen.bench.inputs import Inputs
from loomgen.errors import LoomgenError, MissingRequirement
from loomgen.evidence import package_versions

Result = tuple[Tensor, Tensor | None]
Call = Callable[[], Result]


class MissingPeer(MissingRequirement):
    """A peer that cannot be imported: it is never left out silently."""


class UnknownPeer(LoomgenError):
    """A name that no peer has."""


class NoBackward(LoomgenError):
    """A peer that has no backward is named for a pass that needs one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """``bind(inputs, final)`` makes the call that is timed: it returns ``o``, shaped like v, and with ``final`` the
    final states, fp32, with rows of keys (``kv``: [N, HV, K, V]) or of values (``vk``). Conversions to its own
    conventions are made when it is bound, untimed. ``environ`` holds before ``module`` is imported. ``backward``:
    autograd differentiates its calls. ``ours``: it is loomgen, called in one way or another, and no peer."""

    name: str
    module: str
    packages: tuple[str, ...]
    bind: Callable[[Inputs, bool], Call]
    state_layout: Literal["kv", "vk"] = "kv"
    environ: Mapping[str, str] = field(default_factory=dict)
    backward: bool = True
    ours: bool = False

    def require(self) -> None:
        """Sets its environment and imports it; raises :class:`MissingPeer`."""
        os.environ.update(self.environ)
        try:
            import_module(self.module)
        except ImportError as error:
            wanted = ", ".join(self.packages)
            raise MissingPeer(f"{self.name}: {self.module} cannot be imported ({error}); install {wanted}") from error

    def versions(self) -> dict[str, str]:
        return package_versions(self.packages)

    def keys_first(self, state: Tensor) -> Tensor:
        """A state it returned as [N, HV, K, V]."""
        return state if self.state_layout == "kv" else state.transpose(-1, -2)


def _function(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def _arguments(x: Inputs) -> tuple[Tensor, ...]:
    return x.q, x.k, x.v, x.g, x.beta


def _state_of_values_first(x: Inputs) -> Tensor | None:
    return None if x.initial_state is None else x.initial_state.transpose(-1, -2).contiguous()


def _bind_loomgen(x: Inputs, final: bool, **options: Any) -> Call:
    rule = _function("loomgen.ops", "chunk_gated_delta_rule")
    return partial(
        rule, *_arguments(x), initial_state=x.initial_state, output_final_state=final, use_qk_l2norm_in_kernel=True,
        cu_seqlens=x.cu_seqlens, cu_seqlens_cpu=x.cu_seqlens_cpu, backend="cuda", **options,
    )  # fmt: skip


def _bind_fla(x: Inputs, final: bool) -> Call:
    rule = _function("fla.ops.gated_delta_rule", "chunk_gated_delta_rule")
    return partial(
        rule, *_arguments(x), initial_state=x.initial_state, output_final_state=final, use_qk_l2norm_in_kernel=True,
        cu_seqlens=x.cu_seqlens, cu_seqlens_cpu=x.cu_seqlens_cpu,
    )  # fmt: skip


def _bind_flash_qla(x: Inputs, final: bool, *, auto_cp: bool) -> Call:
    rule = _function("flash_qla", "chunk_gated_delta_rule")
    return partial(
        rule, *_arguments(x), initial_state=x.initial_state, output_final_state=final, use_qk_l2norm_in_kernel=True,
        cu_seqlens=x.cu_seqlens, auto_cp=auto_cp,
    )  # fmt: skip


def _bind_flashinfer(x: Inputs, final: bool) -> Call:
    """Takes the decay itself, tokens flat and i64 offsets."""
    rule = _function("flashinfer.gdn_prefill", "chunk_gated_delta_rule")
    flat = [t.flatten(0, 1).contiguous() for t in (x.q, x.k, x.v, x.g.exp(), x.beta)]
    offsets = _offsets(x).to(torch.int64)
    state = _state_of_values_first(x)

    def call() -> Result:
        out = rule(
            *flat, initial_state=state, output_final_state=final, cu_seqlens=offsets, use_qk_l2norm_in_kernel=True
        )
        o, final_state = out if final else (out, None)
        return o.view(x.v.shape), final_state

    return call


def _offsets(x: Inputs) -> Tensor:
    if x.cu_seqlens is not None:
        return x.cu_seqlens
    return torch.arange(x.q.shape[0] + 1, device=x.q.device) * x.q.shape[1]


def _bind_attn_gym(x: Inputs, final: bool) -> Call:
    """Has no normalisation of its own: its ``l2norm`` is part of the call."""
    rule, l2norm = (_function("attn_gym.linear", name) for name in ("chunk_gdn", "l2norm"))
    state = _state_of_values_first(x)

    def call() -> Result:
        result: Result = rule(
            l2norm(x.q), l2norm(x.k), x.v, x.g, x.beta, state, cu_seqlens=x.cu_seqlens, output_final_state=final
        )
        return result

    return call


OURS = Implementation(name="loomgen", module="loomgen.ops", packages=("cuda-bindings",), bind=_bind_loomgen, ours=True)

PEERS = {
    peer.name: peer
    for peer in (
        Implementation(
            name="fla",
            module="fla.ops.gated_delta_rule",
            packages=("fla-core", "triton", "tilelang"),  # tilelang: its backward on Hopper with Triton before 3.7.1
            bind=_bind_fla,
            environ={"FLA_FLASH_QLA": "0"},  # or it hands its calls to FlashQLA where that is installed
        ),
        Implementation(
            name="flash_qla",
            module="flash_qla",
            packages=("flash-qla", "tilelang"),
            bind=partial(_bind_flash_qla, auto_cp=True),
        ),
        Implementation(
            name="flash_qla_nocp",
            module="flash_qla",
            packages=("flash-qla", "tilelang"),
            bind=partial(_bind_flash_qla, auto_cp=False),
        ),
        Implementation(
            name="flashinfer",
            module="flashinfer.gdn_prefill",
            packages=("flashinfer-python", "nvidia-cutlass-dsl"),
            bind=_bind_flashinfer,
            state_layout="vk",
            backward=False,
        ),
        Implementation(
            name="attn_gym",
            module="attn_gym.linear",
            packages=("attn-gym", "triton", "nvidia-cutlass-dsl"),
            bind=_bind_attn_gym,
            state_layout="vk",
        ),
        Implementation(
            name="loomgen_states",
            module="loomgen.ops",
            packages=("cuda-bindings",),
            bind=partial(_bind_loomgen, save="states"),
            ours=True,
        ),
    )
}
"""By name. ``flash_qla_nocp`` is FlashQLA without its automatic parallelism over parts of a sequence;
``loomgen_states`` is loomgen with the states of all chunks kept for its backward."""


def peer_named(name: str) -> Implementation:
    """Raises :class:`UnknownPeer`."""
    if name not in PEERS:
        raise UnknownPeer(f"no peer is called {name!r}; peers: {', '.join(PEERS)}")
    return PEERS[name]
