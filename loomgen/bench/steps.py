"""What is called: an implementation's forward, or a training call of it, with results by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from loomgen.bench.implementations import Implementation
from loomgen.bench.inputs import Inputs, OutputGradients

Results = Mapping[str, Tensor]
"""``o`` and, where it was asked for, ``state`` with rows of keys; of a training call ``dq``, ``dk``, ``dv``, ``dg``,
``dbeta`` and, where an initial state is given, ``dh0`` as well, each laid out as what it is the gradient of."""

Step = Callable[[], Results]

_LEAVES = {"q": "dq", "k": "dk", "v": "dv", "g": "dg", "beta": "dbeta", "initial_state": "dh0"}
"""The fields of the inputs that have gradients, and what these are called."""


def forward_step(implementation: Implementation, x: Inputs, *, final: bool) -> Step:
    """Calls without autograd; with ``final`` the final state is asked for."""
    call = implementation.bind(x, final)

    def step() -> Results:
        with torch.no_grad():
            return _named(implementation, *call())

    return step


def training_step(implementation: Implementation, x: Inputs, given: OutputGradients, *, final: bool) -> Step:
    """Calls forward and backward: the gradients of every input tensor from those of ``o`` and, with ``final`` and where
    one is ``given``, of the final state."""
    leaves = {name: t.detach().requires_grad_() for name in _LEAVES if (t := getattr(x, name)) is not None}
    wanted = [given.o] if given.state is None or not final else [given.o, given.state]
    with torch.enable_grad():
        call = implementation.bind(replace(x, **leaves), final)

    def step() -> Results:
        with torch.enable_grad():
            results = _named(implementation, *call())
            outputs = list(results.values())[: len(wanted)]
            gradients = torch.autograd.grad(outputs, list(leaves.values()), wanted)
        named = zip((_LEAVES[name] for name in leaves), gradients, strict=True)
        return {**{name: t.detach() for name, t in results.items()}, **dict(named)}

    return step


def _named(implementation: Implementation, o: Tensor, state: Tensor | None) -> dict[str, Tensor]:
    return {"o": o} if state is None else {"o": o, "state": implementation.keys_first(state)}
