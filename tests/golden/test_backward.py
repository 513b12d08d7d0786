"""The backward's closed form against autograd of the recurrence, which knows nothing of chunks."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from loomgen.golden import chunk_gated_delta_rule_backward, recurrent_gated_delta_rule

TOLERANCE = 1e-11


def draw(
    lengths: tuple[int, ...], *, heads: int = 2, group: int = 2, slack: int = 0, lowest_gate: float = -4.0
) -> tuple[dict[str, Any], Tensor, Tensor]:
    """Arguments, the gradient of o and that of the final state; float64, K = 6, V = 10."""
    rng = torch.Generator().manual_seed(sum(lengths) + heads)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    n_tokens, value_heads, n_sequences = sum(lengths) + slack, heads * group, len(lengths)
    arguments = {
        "q": normal(n_tokens, heads, 6),
        "k": normal(n_tokens, heads, 6),
        "v": normal(n_tokens, value_heads, 10),
        "g": lowest_gate * torch.rand(n_tokens, value_heads, generator=rng, dtype=torch.float64),
        "beta": torch.sigmoid(normal(n_tokens, value_heads)),
        "initial_state": normal(n_sequences, value_heads, 6, 10),
    }
    offsets = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
    return (
        {**arguments, "cu_seqlens": offsets},
        normal(n_tokens, value_heads, 10),
        normal(n_sequences, value_heads, 6, 10),
    )


def by_autograd(arguments: dict[str, Any], do: Tensor, dht: Tensor, **flags: Any) -> dict[str, Tensor]:
    leaves = {n: x.clone().requires_grad_() for n, x in arguments.items() if n != "cu_seqlens"}
    o, state = recurrent_gated_delta_rule(**leaves, cu_seqlens=arguments.get("cu_seqlens"), **flags)
    gradients = torch.autograd.grad([o, state], list(leaves.values()), [do, dht])
    return dict(zip(leaves, gradients, strict=True))


def agree(arguments: dict[str, Any], do: Tensor, dht: Tensor, chunk: int, **flags: Any) -> None:
    found = chunk_gated_delta_rule_backward(**arguments, do=do, dht=dht, chunk=chunk, **flags)._asdict()
    for name, want in by_autograd(arguments, do, dht, **flags).items():
        assert found[name].shape == want.shape, name
        assert (found[name] - want).abs().max() <= TOLERANCE * max(1.0, float(want.abs().max())), name


@pytest.mark.parametrize("normalise", [False, True])
def test_gradients_are_those_of_the_recurrence(normalise: bool) -> None:
    arguments, do, dht = draw((0, 5, 16, 23), slack=3)
    arguments["k"] = arguments["k"] / 3  # unnormalised keys of length 1 or so: the recurrence stays bounded
    agree(arguments, do, dht, 8, use_qk_l2norm=normalise)


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 21), min_size=1, max_size=3),
    heads=st.integers(1, 2),
    group=st.integers(1, 3),
    chunk=st.sampled_from((1, 4, 8, 64)),
    lowest_gate=st.sampled_from((0.0, -0.1, -30.0)),
)
def test_any_lengths_groups_and_gates(
    lengths: list[int], heads: int, group: int, chunk: int, lowest_gate: float
) -> None:
    if not sum(lengths):
        return
    arguments, do, dht = draw(tuple(lengths), heads=heads, group=group, lowest_gate=lowest_gate)
    agree(arguments, do, dht, chunk, use_qk_l2norm=True)


def test_states_with_values_first_and_a_batch_of_rows() -> None:
    arguments, do, dht = draw((12, 12))
    rows = {n: x.reshape(2, 12, *x.shape[1:]) for n, x in arguments.items() if n not in ("initial_state", "cu_seqlens")}
    rows["initial_state"] = arguments["initial_state"].mT.contiguous()
    agree(rows, do.reshape(2, 12, *do.shape[1:]), dht.mT.contiguous(), 8, use_qk_l2norm=True, state_v_first=True)


def test_empty_sequences_hand_their_gradient_through_and_slack_gets_zeros() -> None:
    arguments, do, dht = draw((0, 0), slack=4)
    found = chunk_gated_delta_rule_backward(**arguments, do=do, dht=dht)
    assert torch.equal(found.initial_state, dht)
    assert all(not gradient.any() for gradient in found[:-1])


def test_clamped_gates_pass_no_gradient() -> None:
    arguments, do, dht = draw((20,))
    arguments["g"][7] = -316.0
    found = chunk_gated_delta_rule_backward(**arguments, do=do, dht=dht, use_qk_l2norm=True)
    assert not found.g[7].any() and found.g[8].all()


def test_a_gradient_left_out_is_zeros() -> None:
    arguments, do, dht = draw((9,))
    left_out = chunk_gated_delta_rule_backward(**arguments, do=do)
    zeros = chunk_gated_delta_rule_backward(**arguments, do=do, dht=torch.zeros_like(dht))
    assert all(torch.equal(a, b) for a, b in zip(left_out, zeros, strict=True))


def test_gradients_of_other_shapes_are_refused() -> None:
    arguments, do, dht = draw((9,))
    with pytest.raises(ValueError, match=r"do has shape .* that of v"):
        chunk_gated_delta_rule_backward(**arguments, do=do[1:], dht=dht)
    with pytest.raises(ValueError, match=r"dht has shape \(1, 4, 10, 6\): want \(1, 4, 6, 10\)"):
        chunk_gated_delta_rule_backward(**arguments, do=do, dht=dht.mT)
