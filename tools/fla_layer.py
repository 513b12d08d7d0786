"""FLA's layer GatedDeltaNet on loomgen, beside FLA's own path on the same weights."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from loomgen.integrations import fla
from loomgen.integrations.optional import imported
from loomgen.verify import relative_l2
from tools.fla_plugin import Seen, watched

HIDDEN, HEAD_DIM, HEADS, VALUE_HEADS = 256, 128, 2, 4
BATCH, TOKENS = 2, 200

BOUND = 2e-2
"""Of the layer's output and of every gradient, relative to FLA's: bf16 on both sides, in projections too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerResult:
    """The largest relative L2 difference, of which tensor, and what the dispatch asked with loomgen on and off."""

    largest: float
    name: str
    on: Seen
    off: Seen

    @property
    def ok(self) -> bool:
        return self.largest <= BOUND and self.on.calls == self.on.differentiable == 1 and self.off.calls == 0


def compare_layer(device: torch.device) -> LayerResult:
    """Raises MissingPackage without FLA."""
    fla.register()
    torch.manual_seed(0)
    layer = imported("fla.layers.gated_deltanet", "fla").GatedDeltaNet(
        hidden_size=HIDDEN, head_dim=HEAD_DIM, num_heads=HEADS, num_v_heads=VALUE_HEADS, expand_v=1
    )
    layer = layer.to(device, torch.bfloat16).train()
    x, do = (torch.randn(BATCH, TOKENS, HIDDEN, device=device, dtype=torch.bfloat16) for _ in range(2))
    with watched() as on:
        ours = _results(layer, x, do)
    with pytest.MonkeyPatch.context() as patch, watched() as off:
        patch.setenv(fla.Adapter.env_var, "0")
        theirs = _results(layer, x, do)
    errors = {name: relative_l2(ours[name].cpu(), theirs[name].cpu()) for name in theirs}
    name = max(errors, key=lambda name: errors[name])
    return LayerResult(largest=errors[name], name=name, on=on, off=off)


def _results(layer: torch.nn.Module, x: Tensor, do: Tensor) -> dict[str, Tensor]:
    layer.zero_grad()
    y = layer(x)[0]
    y.backward(do)
    gradients = {f"d{name}": p.grad for name, p in layer.named_parameters() if p.grad is not None}
    return {"y": y.detach(), **gradients}
