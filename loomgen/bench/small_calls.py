"""Calls that are small enough for a tool that runs every instruction a hundred times slower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from loomgen import golden
from loomgen.bench.workloads import Pass
from loomgen.ops import chunk_gated_delta_rule
from loomgen.verify import relative_l2

_KEY_HEADS, _VALUE_HEADS = 2, 4
_LEAVES = ("q", "k", "v", "g", "beta", "initial_state")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallCall:
    """A ragged pack with all that a call can be given: initial states, gates, and the final states are asked for."""

    lengths: tuple[int, ...]
    head_dim: int
    activation: torch.dtype
    step: torch.dtype = torch.float32

    def error(self, device: torch.device, what: Pass, **options: Any) -> float:
        """The largest relative L2 error of its results on ``device``: of ``o``, in a training call of every gradient
        as well. ``options`` are the operator's."""
        given, offsets = self.inputs(), torch.tensor([0, *self.lengths]).cumsum(0)
        on_device = {name: x.to(device) for name, x in given.items()}
        options = {**options, "cu_seqlens": offsets.to(device), "cu_seqlens_cpu": offsets}
        if what is Pass.FWD:
            found = {"o": _call(on_device, **options)[0]}
        else:
            leaves = {name: on_device[name].detach().requires_grad_() for name in _LEAVES}
            o, final = _call(leaves, **options)
            wanted = [on_device["do"], on_device["dht"]]
            gradients = torch.autograd.grad([o, final], list(leaves.values()), wanted)
            found = {"o": o.detach(), **dict(zip(leaves, gradients, strict=True))}
        reference = _reference(given, offsets, what)
        return max(relative_l2(x.cpu(), reference[name]) for name, x in found.items())

    def inputs(self) -> dict[str, Tensor]:
        """By the operator's names, on the CPU, with the gradients ``do`` and ``dht`` of its results."""
        random = torch.Generator().manual_seed(3)
        n_tokens, n_sequences, dim = sum(self.lengths), len(self.lengths), self.head_dim

        def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.randn(*shape, generator=random).to(dtype)

        by_key, by_value = (1, n_tokens, _KEY_HEADS), (1, n_tokens, _VALUE_HEADS)
        return {
            "q": normal(*by_key, dim, dtype=self.activation),
            "k": normal(*by_key, dim, dtype=self.activation),
            "v": normal(*by_value, dim, dtype=self.activation),
            "g": -normal(*by_value).abs() / 8,
            "beta": normal(*by_value).sigmoid().to(self.step),
            "initial_state": normal(n_sequences, _VALUE_HEADS, dim, dim) / 8,
            "do": normal(*by_value, dim, dtype=self.activation),
            "dht": normal(n_sequences, _VALUE_HEADS, dim, dim),
        }


def _call(given: dict[str, Tensor], **options: Any) -> tuple[Tensor, Tensor]:
    arguments: dict[str, Any] = {name: given[name] for name in _LEAVES}
    o, final = chunk_gated_delta_rule(**arguments, output_final_state=True, use_qk_l2norm_in_kernel=True, **options)
    assert final is not None
    return o, final


def _reference(given: dict[str, Tensor], offsets: Tensor, what: Pass) -> dict[str, Tensor]:
    """What is right, in float64, by the names of the results."""
    arguments: dict[str, Any] = {name: given[name] for name in _LEAVES}
    flags: dict[str, Any] = {"cu_seqlens": offsets, "use_qk_l2norm": True}
    o, _ = golden.chunk_gated_delta_rule(**arguments, **flags)
    if what is Pass.FWD:
        return {"o": o}
    gradients = golden.chunk_gated_delta_rule_backward(**arguments, **flags, do=given["do"], dht=given["dht"])
    return {"o": o, **gradients._asdict()}


def small_calls() -> tuple[SmallCall, ...]:
    """Between them every stage and, through the number of sequences, every variant of the state scans."""
    few, some, many = (0, 15, 64, 65, 130), (1, 70, 1) * 3, (3, 66, 1, 64) * 3
    bf16, f16 = torch.bfloat16, torch.float16
    return (
        SmallCall(lengths=few, head_dim=128, activation=bf16),
        SmallCall(lengths=some, head_dim=128, activation=bf16),
        SmallCall(lengths=many, head_dim=128, activation=bf16),
        SmallCall(lengths=few, head_dim=128, activation=f16, step=bf16),
        SmallCall(lengths=few, head_dim=64, activation=bf16),
    )
