"""Gates and steps from raw ones: values worked by hand, and gradients against autograd through the recurrence."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from loomgen.golden import (
    chunk_gated_delta_rule_backward,
    gate_from_raw,
    gate_gradients,
    recurrent_gated_delta_rule,
    step_from_raw,
    step_gradient,
)

F64 = torch.float64


def test_a_gate_is_the_rate_times_the_softplus() -> None:
    found = gate_from_raw(torch.tensor([[0.0, 1.0]]), torch.tensor([math.log(2.0), 0.0]), torch.tensor([0.0, -1.0]))
    torch.testing.assert_close(found, torch.tensor([[-2 * math.log(2.0), -math.log(2.0)]], dtype=F64))


def test_the_softplus_is_finite_and_right_at_both_ends() -> None:
    x = torch.tensor([-800.0, -100.0, -30.0, 19.5, 20.5, 3e38], dtype=F64)
    found = -gate_from_raw(x, torch.zeros(1))
    wanted = [0.0, math.exp(-100), math.exp(-30), 19.5 + math.exp(-19.5), 20.5, 3e38]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=F64), rtol=1e-12, atol=0)


def test_the_softplus_has_the_derivatives_of_its_branches() -> None:
    x = torch.tensor([100.0, 21.0, 0.0], dtype=F64, requires_grad=True)
    (found,) = torch.autograd.grad(-gate_from_raw(x, torch.zeros(1)).sum(), x)
    assert found.tolist() == [1.0, 1.0, 0.5]
    closed = gate_gradients(x.detach()[:, None], torch.zeros(1), None, -torch.ones(3, 1, dtype=F64), (0, 3))
    assert closed.da[:, 0].tolist() == [1.0, 1.0, 0.5]


def test_a_step_is_the_sigmoid_or_twice_that() -> None:
    b = torch.tensor([0.0, 1e4, -1e4, math.log(3.0)], dtype=F64)
    torch.testing.assert_close(step_from_raw(b), torch.tensor([0.5, 1.0, 0.0, 0.75], dtype=F64))
    torch.testing.assert_close(step_from_raw(b, allow_neg_eigval=True), torch.tensor([1.0, 2.0, 0.0, 1.5], dtype=F64))


def normal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=rng, dtype=F64)


@pytest.mark.parametrize("allow_neg_eigval", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_gradients_through_the_recurrence_are_the_closed_form_behind_the_closed_form(
    biased: bool, allow_neg_eigval: bool
) -> None:
    rng, bounds, heads = torch.Generator().manual_seed(3), (0, 5, 5, 20), 4
    n_tokens = bounds[-1] + 2
    q, k = normal(rng, n_tokens, 2, 6), normal(rng, n_tokens, 2, 6)
    v, do = normal(rng, n_tokens, heads, 10), normal(rng, n_tokens, heads, 10)
    a, b = 4 * normal(rng, n_tokens, heads), normal(rng, n_tokens, heads)
    a[7] = 25.0
    A_log, dt_bias = normal(rng, heads) - 3, normal(rng, heads) if biased else None
    leaves = [x.requires_grad_() for x in (a, b, A_log, dt_bias) if x is not None]
    g, beta = gate_from_raw(a, A_log, dt_bias), step_from_raw(b, allow_neg_eigval=allow_neg_eigval)
    offsets = torch.tensor(bounds)
    o, _ = recurrent_gated_delta_rule(q, k, v, g, beta, cu_seqlens=offsets, use_qk_l2norm=True)
    wanted = torch.autograd.grad(o, leaves, do)
    with torch.no_grad():
        chunked = chunk_gated_delta_rule_backward(q, k, v, g, beta, do, cu_seqlens=offsets, use_qk_l2norm=True, chunk=8)
        gates = gate_gradients(a, A_log, dt_bias, chunked.g, bounds, chunk=8)
        db = step_gradient(b, chunked.beta, bounds, allow_neg_eigval=allow_neg_eigval)
    assert gates.dA_log_parts.shape == gates.ddt_bias_parts.shape == (3, heads)
    found = [gates.da, db, gates.dA_log_parts.sum(0), gates.ddt_bias_parts.sum(0)]
    for x, want in zip(found, wanted, strict=False):
        assert (x - want).abs().max() <= 1e-11 * max(1.0, float(want.abs().max()))
    assert not gates.da[-2:].any() and not db[-2:].any()
