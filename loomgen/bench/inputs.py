"""The tensors of a case: random, and the same for every implementation and every run."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from loomgen.bench.workloads import HEAD_DIM, Case, Gate, Twist


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """``q``, ``k`` [B, T, H, 128] and ``v`` [B, T, HV, 128] bf16; ``g`` (natural log of the decay) and ``beta``
    [B, T, HV] fp32; ``initial_state`` [N, HV, K, V] fp32 or None; ``cu_seqlens`` i32 [N + 1] or None, and its copy
    on the CPU."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    beta: Tensor
    initial_state: Tensor | None
    cu_seqlens: Tensor | None
    cu_seqlens_cpu: Tensor | None
    lengths: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputGradients:
    """What a backward is given: ``o`` like v; ``state`` like the final states, rows of keys, None for zeros."""

    o: Tensor
    state: Tensor | None


def make_inputs(case: Case, device: torch.device) -> Inputs:
    """q, k and v are N(0, 1), beta is sigmoid(N(0, 1)), the initial state N(0, 0.01); a twist changes k or beta."""
    work = case.workload
    random = torch.Generator(device=device).manual_seed(zlib.crc32(work.content.encode()))
    shape = (len(work.lengths), work.lengths[0]) if work.layout == "dense" else (1, work.n_tokens)

    def normal(*dims: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.randn(*dims, generator=random, device=device, dtype=dtype)

    q, k = (normal(*shape, work.key_heads, HEAD_DIM, dtype=torch.bfloat16) for _ in range(2))
    v = normal(*shape, work.value_heads, HEAD_DIM, dtype=torch.bfloat16)
    beta = normal(*shape, work.value_heads).sigmoid()
    g = _gate(case.gate, normal(*shape, work.value_heads), random)
    k, beta = _twisted(case.twist, k, beta)
    state = 0.1 * normal(len(work.lengths), work.value_heads, HEAD_DIM, HEAD_DIM) if case.with_state else None
    offsets = torch.tensor([0, *accumulate(work.lengths)], dtype=torch.int32) if work.layout == "packed" else None
    return Inputs(
        q=q, k=k, v=v, g=g, beta=beta, initial_state=state,
        cu_seqlens=None if offsets is None else offsets.to(device), cu_seqlens_cpu=offsets, lengths=work.lengths,
    )  # fmt: skip


def make_gradients(case: Case, x: Inputs) -> OutputGradients:
    """N(0, 1); that of the final states only where the case has states."""
    random = torch.Generator(device=x.v.device).manual_seed(zlib.crc32(f"{case.workload.content}|gradients".encode()))
    o = torch.randn(x.v.shape, generator=random, device=x.v.device, dtype=x.v.dtype)
    start = x.initial_state
    state = None if start is None else torch.randn(start.shape, generator=random, device=start.device)
    return OutputGradients(o=o, state=state)


def _twisted(twist: Twist | None, k: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Correlated keys have a direction of their head in common, as long as what is their own: a cosine of a half."""
    match twist:
        case None:
            return k, beta
        case "correlated keys":
            return k + k[:1, :1], beta
        case "negative eigenvalues":
            return k, 2 * beta


def _gate(gate: Gate, x: Tensor, random: torch.Generator) -> Tensor:
    """``none``: 0. ``logsigmoid16``: logsigmoid(x) / 16. ``mamba``: -exp(A_log) softplus(x + dt_bias), as models are
    initialised: exp(A_log) uniform in [1, 16], softplus(dt_bias) log-uniform in [1e-3, 1e-1], one of each for a head.
    """
    match gate:
        case "logsigmoid16":
            return torch.nn.functional.logsigmoid(x) / 16
        case "none":
            return torch.zeros_like(x)
        case "mamba":
            uniform = torch.rand(2, x.shape[-1], generator=random, device=x.device)
            rate = 1 + 15 * uniform[0]
            step = torch.exp(math.log(1e-3) + math.log(100) * uniform[1])
            bias = step + torch.log(-torch.expm1(-step))
            return -rate * torch.nn.functional.softplus(x + bias)
