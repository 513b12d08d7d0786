"""The backward in float64 as its stages mean it: finite differences of the forward, autograd of the recurrence."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from loomgen import golden
from loomgen.verify.problem import LOWEST_GATE
from tests.verify.float64_chain import HEAD_DIM, Chain

INPUTS = ("q", "k", "v", "g", "beta", "h0")
STEP = 1e-4
FROM_DIFFERENCES = 1e-6
FROM_AUTOGRAD = 1e-10
"""Of a gradient's norm."""


def normal(gen: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=gen, dtype=torch.float64)


def draw(chain: Chain, strength: float = 1.0, seed: int = 0) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Inputs, the gradient of o and that of the final state; gates are ``strength`` times logsigmoid, keys as long as
    queries, or 1 long where the chain does not normalise them."""
    gen = torch.Generator().manual_seed(seed)
    n_tokens, (h, hv), dim = sum(chain.lengths), chain.heads, HEAD_DIM
    k = normal(gen, n_tokens, h, dim)
    inputs = {
        "q": normal(gen, n_tokens, h, dim),
        "k": k if chain.normalise else torch.nn.functional.normalize(k, dim=-1),
        "v": normal(gen, n_tokens, hv, dim),
        "g": strength * torch.nn.functional.logsigmoid(normal(gen, n_tokens, hv)),
        "beta": normal(gen, n_tokens, hv).sigmoid(),
        "h0": normal(gen, len(chain.lengths), hv, dim, dim),
    }
    return inputs, normal(gen, n_tokens, hv, dim), normal(gen, len(chain.lengths), hv, dim, dim)


def total(chain: Chain, inputs: Mapping[str, Tensor], do: Tensor, dht: Tensor) -> float:
    """<do, o> + <dht, ht>, of which the backward gives the gradients."""
    done = chain.forward(inputs)
    o, ht = done["o"], done["ht"]
    assert isinstance(o, Tensor) and isinstance(ht, Tensor)
    return float((do * o).sum() + (dht * ht).sum())


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("name", INPUTS)
def test_directional_derivatives_are_finite_differences(name: str, normalise: bool) -> None:
    chain = Chain(lengths=(3, 0, 66), heads=(1, 2), normalise=normalise)
    inputs, do, dht = draw(chain)
    gradient = chain.backward(chain.forward(inputs), do, dht)[name]
    x, aside = inputs[name], normal(torch.Generator().manual_seed(1), *inputs[name].shape)
    for direction in (gradient / gradient.norm(), aside / aside.norm()):
        above, below = (total(chain, {**inputs, name: x + step * direction}, do, dht) for step in (STEP, -STEP))
        wanted = float((gradient * direction).sum())
        assert abs((above - below) / (2 * STEP) - wanted) <= FROM_DIFFERENCES * max(abs(wanted), 1.0)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lengths=st.lists(st.sampled_from((0, 1, 2, 15, 63, 64, 65, 130)), min_size=1, max_size=3).filter(any),
    heads=st.sampled_from(((1, 1), (1, 2), (2, 2), (1, 3), (2, 4))),
    strength=st.sampled_from((0.0, 1 / 16, 1.0, 40.0)),
    shuts=st.booleans(),
    normalise=st.booleans(),
)
def test_gradients_are_those_of_the_recurrence(
    lengths: list[int], heads: tuple[int, int], strength: float, shuts: bool, normalise: bool
) -> None:
    chain = Chain(lengths=tuple(lengths), heads=heads, normalise=normalise)
    inputs, do, dht = draw(chain, strength)
    if shuts:
        inputs["g"][::5] = LOWEST_GATE
    found = chain.backward(chain.forward(inputs), do, dht)
    wanted = by_autograd(chain, inputs, do, dht)
    for name in INPUTS:
        limit = FROM_AUTOGRAD * max(1.0, float(wanted[name].norm()))
        assert float((found[name] - wanted[name]).norm()) <= limit, name


def by_autograd(chain: Chain, inputs: Mapping[str, Tensor], do: Tensor, dht: Tensor) -> dict[str, Tensor]:
    leaves = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    o, final = golden.recurrent_gated_delta_rule(
        *(leaves[name] for name in ("q", "k", "v", "g", "beta")),
        initial_state=leaves["h0"],
        cu_seqlens=torch.tensor([0, *accumulate(chain.lengths)]),
        use_qk_l2norm=chain.normalise,
        state_v_first=True,
    )
    gradients = torch.autograd.grad([o, final], list(leaves.values()), [do, dht])
    return dict(zip(leaves, gradients, strict=True))
