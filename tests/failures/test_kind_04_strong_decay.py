"""Kind 4, gates down to -316 a token: elsewhere transposes in 16 bits corrupted their gradients."""

from __future__ import annotations

from dataclasses import replace

import torch

from loomgen.verify import OpCase
from loomgen.verify.problem import LOWEST_GATE
from tests.failures.emulated import emulated, errors, make_call

STRONG = OpCase(name="strong", lengths=(64, 100), heads=(1, 2), gates="strong")


def test_gradients_amid_gates_that_shut_are_within_their_bounds() -> None:
    found = errors(STRONG)
    assert found["dg"] <= 1 and max(found.values()) <= 1, found


def test_the_largest_decay_that_is_not_shut_keeps_its_gradient() -> None:
    """Decays of 2^-20, alone between mild ones: their gradients are small, and right beside those that are not."""
    call = make_call(replace(STRONG, gates="usual"), 0)
    assert call.inputs.g is not None
    call.inputs.g[:, ::9] = -14.0
    dg = emulated(call)["dg"]
    assert dg.isfinite().all() and dg[:, ::9].any()
    assert dg[:, ::9].abs().max() < dg.abs().max()


def test_where_every_gate_shuts_each_token_is_alone() -> None:
    call = make_call(STRONG, 0)
    assert call.inputs.g is not None
    call.inputs.g[:] = LOWEST_GATE
    found = emulated(call)
    assert all(x.isfinite().all() for x in found.values())
    assert not found["dg"].any() and not found["dh0"].any()
    q, k = (torch.nn.functional.normalize(x.float(), dim=-1) for x in (call.inputs.q, call.inputs.k))
    weight = call.inputs.beta[..., None] * (q * k).sum(-1, keepdim=True) * call.case.head_dim**-0.5
    expected = weight * call.inputs.v.float()
    assert float((found["o"].float() - expected).norm() / expected.norm()) < 5e-3
