"""What the operator promises bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from loomgen.ops.dispatch import ScanVariant
from loomgen.ops.forward import forward
from loomgen.ops.library import emulated_library
from loomgen.runtime.tables import window_tables
from loomgen.verify import OpCase, same_bits
from loomgen.verify.op import arguments_of, op_inputs
from tests.ops.call import arguments, offsets, run, tokens

SMALL = OpCase(name="small", lengths=(15, 65), heads=(1, 2), head_dim=64)


def equal(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> bool:
    return all(same_bits(x.contiguous(), y.contiguous()) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("head_dim", [64, 128])
def test_scan_variants_agree(head_dim: int) -> None:
    case = replace(SMALL, head_dim=head_dim)
    inputs = op_inputs(case, 0)
    of = arguments_of(case, inputs)
    variants: tuple[ScanVariant, ...] = ("r32k2", "r32k1", "r64k1")
    first, *others = [forward(of, case.lengths, emulated_library(), variant=variant)[:2] for variant in variants]
    assert first[1] is not None and first[1].abs().max() > 0
    for o, final in others:
        assert final is not None
        assert equal((o, final), (first[0], first[1]))


def test_a_sequence_alone_equals_itself_in_a_pack() -> None:
    given = arguments(replace(SMALL, lengths=(15, 65, 0, 9)))
    o, final = run(given)
    begin = 0
    for n, length in enumerate((15, 65, 0, 9)):
        part = tokens(given, begin, begin + length)
        alone = run(given, **part, initial_state=given["initial_state"][n : n + 1], cu_seqlens=offsets(0, length))
        assert equal(alone, (o[:, begin : begin + length], final[n : n + 1])), n
        begin += length


def test_nan_in_a_neighbour_changes_no_bit_of_a_sequence() -> None:
    given = arguments(replace(SMALL, lengths=(9, 65, 7)))
    o, final = run(given)
    poisoned = {name: x.clone() for name, x in tokens(given, 0, 81).items()}
    for x in poisoned.values():
        x[:, :9], x[:, 74:] = float("nan"), float("nan")
    state = given["initial_state"].clone()
    state[0], state[2] = float("nan"), float("nan")
    other_o, other_final = run(given, **poisoned, initial_state=state)
    assert torch.isnan(other_o[:, :9]).all() and torch.isnan(other_final[2]).all()
    assert equal((other_o[:, 9:74], other_final[1]), (o[:, 9:74], final[1]))


def test_slack_tokens_come_back_as_zeros_and_change_nothing() -> None:
    o, final = run(arguments(SMALL))
    slack_o, slack_final = run(arguments(replace(SMALL, slack=5)))
    assert slack_o.shape[1] == 85 and slack_o[:, 80:].eq(0).all()
    assert equal((slack_o[:, :80], slack_final), (o, final))


def test_a_resumed_sequence_equals_one_pass_on_the_grid_of_chunks() -> None:
    given = arguments(replace(SMALL, lengths=(96,)))
    o, final = run(given)
    head, state = run(given, **tokens(given, 0, 64), cu_seqlens=offsets(0, 64))
    tail, resumed = run(given, **tokens(given, 64, 96), cu_seqlens=offsets(0, 32), initial_state=state)
    assert equal((torch.cat([head, tail], dim=1), resumed), (o, final))


def test_rows_of_a_batch_are_sequences() -> None:
    dense = arguments(replace(SMALL, lengths=(20, 20), packed=False))
    packed = arguments(replace(SMALL, lengths=(20, 20)))
    o, final = run(dense)
    assert o.shape == (2, 20, 2, 64)
    packed_o, packed_final = run(packed)
    assert equal((o.reshape(packed_o.shape), final), (packed_o, packed_final))


def test_value_heads_of_a_group_share_their_key_head() -> None:
    given = arguments(SMALL)
    repeated = {name: given[name].repeat_interleave(2, dim=2) for name in ("q", "k")}
    assert equal(run(given, **repeated), run(given))


def test_the_two_layouts_of_states_hold_the_same_values() -> None:
    given = arguments(SMALL)
    o, final = run(given)
    turned = run(given, state_v_first=True, initial_state=given["initial_state"].mT)
    assert equal((turned[0], turned[1].mT), (o, final))


def misaligned(x: Tensor) -> Tensor:
    """The same values, two bytes past a multiple of sixteen."""
    return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)


def last_dim_apart(x: Tensor) -> Tensor:
    return torch.stack([x, x], dim=-1)[..., 0]


@pytest.mark.parametrize("change", [misaligned, last_dim_apart])
def test_rows_that_no_kernel_can_read_are_copied(change: Any) -> None:
    given = arguments(SMALL)
    changed = {name: change(given[name]) for name in ("q", "k", "v")}
    assert equal(run(given, **changed), run(given))


def test_a_batch_whose_rows_lie_apart_is_copied() -> None:
    given = arguments(replace(SMALL, lengths=(20, 20), packed=False))
    apart = {name: torch.cat([given[name], given[name]], dim=1)[:, :20] for name in ("q", "k", "v", "g", "beta")}
    assert equal(run(given, **apart), run(given))


def test_every_target_gives_the_same_bits() -> None:
    given = arguments(SMALL)
    expected = run(given)
    assert all(equal(run(given, backend=f"emulate:{arch}"), expected) for arch in ("sm_90a", "sm_100a", "sm_103a"))


def test_raw_gates_and_steps_give_the_bits_of_those_that_are_made_of_them() -> None:
    case = OpCase(name="raw", lengths=(15, 65), head_dim=64, raw_gates=torch.bfloat16, raw_steps=torch.float16)
    raw = arguments(case)
    made = {name: torch.empty(80, 2) for name in ("made_gate", "made_step")}
    given = {"a": raw["g"][0], "b": raw["beta"][0], "A_log": raw["A_log"], "dt_bias": raw["dt_bias"]}
    library = emulated_library()
    kernel = library.registry.kernel("gates__c64_bf16_f16__base")
    library.prepare([kernel])
    library.launch(kernel, {**window_tables(case.lengths, 64).by_name(), **given, **made, "largest_step": 1.0})
    plain = {name: value for name, value in raw.items() if name not in (*case.raw_flags, "A_log", "dt_bias")}
    assert equal(run(raw), run(plain, g=made["made_gate"][None], beta=made["made_step"][None]))
