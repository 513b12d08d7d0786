"""Kind 10, memory: elsewhere temporaries took 72 KiB a token, and calls ran out of it after caches were sized."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from loomgen.ops import training_bytes, workspace_bytes
from loomgen.ops.workspace import SAVES, Save
from loomgen.verify import OpCase
from tests.failures.emulated import Call, Card, arguments, make_call
from tests.ops.test_training import Bytes

CASE = OpCase(name="memory", lengths=(70, 0, 130), heads=(1, 2), head_dim=64)
RAW = replace(CASE, raw_gates=torch.bfloat16, raw_steps=torch.bfloat16)


def sizes(call: Call, *, on_device: bool) -> dict[str, Any]:
    case = call.case
    return {
        "n_tokens": sum(case.lengths), "n_sequences": len(case.lengths), "key_heads": case.heads[0],
        "value_heads": case.heads[1], "head_dim": case.head_dim, "host_lengths": not on_device,
        "n_chunks": sum(-(-length // 64) for length in case.lengths), "use_gate_in_kernel": case.raw_gates is not None,
        "use_beta_sigmoid_in_kernel": case.raw_steps is not None,
    }  # fmt: skip


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("case", [CASE, RAW], ids=["gates", "raw gates"])
def test_a_training_call_allocates_what_a_caller_was_told(case: OpCase, save: Save, on_device: bool) -> None:
    call, card = make_call(case, 0), Card()
    asked = training_bytes(**sizes(call, on_device=on_device), use_qk_l2norm_in_kernel=True, save=save)
    with Bytes() as memory:
        card.run(call, on_device=on_device, save=save)
    assert sorted(filter(None, memory.made)) == sorted(filter(None, asked))


@pytest.mark.parametrize("on_device", [False, True])
def test_a_call_without_gradients_allocates_what_a_caller_was_told(on_device: bool) -> None:
    call, card = make_call(CASE, 0), Card()
    with Bytes() as memory:
        card.forward.run(arguments(CASE, call.inputs, on_device=on_device))
    assert memory.made == [workspace_bytes(**sizes(call, on_device=on_device))]


def test_the_answer_needs_no_call_and_grows_with_the_tokens_alone() -> None:
    """A 27B model's layer: 16 key heads and 48 value heads of 128; the state of a chunk is most of it."""
    one, two = (
        training_bytes(n_tokens=n, key_heads=16, value_heads=48, use_qk_l2norm_in_kernel=True) for n in (2**15, 2**16)
    )
    assert all(1.9 < b / a <= 2.01 for a, b in zip(one, two, strict=True))
    assert one.saved / 2**15 < 24 * 2**10 and max(one.forward, one.backward) / 2**15 < 90 * 2**10
