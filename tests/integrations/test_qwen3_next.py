"""A real Qwen3-Next, tiny and random, on loomgen in the emulator, beside transformers' own path in torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from examples.tiny_model import IN_EMULATOR, make_model, rule_named
from loomgen.integrations.transformers import use_loomgen
from loomgen.verify import relative_l2

pytest.importorskip("transformers")

LOGITS_BOUND = 4.5e-3
GRADIENT_BOUND = 2e-2
"""That of FLA's own tests for gates. Decays have the largest errors: their gradients are sums over all tokens."""


@pytest.fixture(scope="module")
def model() -> nn.Module:
    """With slow decays: where a state is gone after a token, little but rounding is left of their gradients."""
    model = make_model(replace(IN_EMULATOR, key_heads=1, value_heads=2))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("A_log"):
                parameter.copy_(torch.tensor([-4.0, -2.0]))
    return model


@pytest.fixture(scope="module")
def batch() -> Tensor:
    return torch.randint(256, (2, 20), generator=torch.Generator().manual_seed(2))


def trained(model: nn.Module, batch: Tensor) -> tuple[Tensor, Tensor, Mapping[str, Tensor]]:
    """Logits, the loss, and the gradient of every parameter by its name."""
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(input_ids=batch, labels=batch)
    found.loss.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return found.logits.detach(), found.loss.detach(), gradients


def test_logits_loss_and_every_gradient_agree_with_torch(model: nn.Module, batch: Tensor) -> None:
    with use_loomgen(model, rule=rule_named("torch")) as reference:
        wanted_logits, wanted_loss, wanted = trained(model, batch)
    with use_loomgen(model) as ours:
        logits, loss, gradients = trained(model, batch)
    assert ours.n_layers == reference.n_layers == 1
    assert relative_l2(logits, wanted_logits) <= LOGITS_BOUND and not torch.equal(logits, wanted_logits)
    assert abs(loss / wanted_loss - 1) <= 1e-4
    assert gradients.keys() == wanted.keys() == dict(model.named_parameters()).keys()
    errors = {name: relative_l2(gradients[name], wanted[name]) for name in wanted}
    assert max(errors.values()) <= GRADIENT_BOUND, errors


def test_a_model_of_one_dtype_takes_no_autocast(batch: Tensor) -> None:
    model = make_model(IN_EMULATOR).to(torch.bfloat16)
    with torch.no_grad():
        wanted = model(input_ids=batch).logits
        with use_loomgen(model):
            found = model(input_ids=batch).logits
        assert torch.equal(model(input_ids=batch).logits, wanted)
    assert relative_l2(found, wanted) <= LOGITS_BOUND


def test_activations_in_fp32_are_refused(model: nn.Module, batch: Tensor) -> None:
    with use_loomgen(model), pytest.raises(TypeError, match=r"q: torch\.float32, expected torch\.bfloat16 or"):
        model(input_ids=batch)
