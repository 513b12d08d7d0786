"""Kind 3, g = None: elsewhere the gradients of k and beta were wrong without a gate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from loomgen.verify import OpCase
from tests.failures.emulated import differing, emulated, errors, make_call, on_emulated_card, same

UNGATED = OpCase(name="g = None", lengths=(65, 15), head_dim=64, gates="none")


def test_no_gate_has_the_bits_of_gates_of_zero() -> None:
    call = make_call(UNGATED, 0)
    assert call.inputs.g is None
    zeros = replace(call, inputs=replace(call.inputs, g=torch.zeros_like(call.inputs.beta)))
    found, expected = emulated(call), dict(emulated(zeros))
    assert expected.pop("dg").any() and same(found, expected)


def test_no_gate_has_the_gradients_of_the_recurrence() -> None:
    found = errors(UNGATED)
    assert "dg" not in found and found["dk"] <= 1 and found["dbeta"] <= 1


@pytest.mark.parametrize("on_device", [False, True])
def test_a_gpu_is_given_zeros_for_the_gate(on_device: bool) -> None:
    call = make_call(replace(UNGATED, lengths=(3, 5)), 0)
    assert differing(on_emulated_card(call, on_device=on_device), emulated(call)) == set()
