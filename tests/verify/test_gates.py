"""Gates and steps of raw ones and their gradients in the emulator: extremes, what may be left out, orders, slack."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from loomgen import golden
from loomgen.emulator.stage import emulated_stage
from loomgen.registry import load
from loomgen.runtime.bind import Value
from loomgen.runtime.tables import window_tables
from loomgen.verify import relative_l2, same_bits
from tests.verify.committed import ARCH, ROOT

F32 = torch.float32
HEADS = 3


def run(kernel: str, given: dict[str, Value]) -> None:
    emulated_stage(load(ARCH, ROOT).kernel(kernel), ROOT).run(given)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tables(*lengths: int) -> dict[str, Value]:
    return dict(window_tables(lengths, 64).by_name())


def gate_and_step(given: dict[str, Value], n_tokens: int, heads: int = HEADS) -> tuple[Tensor, Tensor]:
    """What `gates` writes of fp32 raw ones, NaN where it writes nothing."""
    gate, step = torch.full((2, n_tokens, heads), float("nan"))
    wanted = {"made_gate": gate if "a" in given else None, "made_step": step if "b" in given else None}
    run("gates__c64_f32_f32__base", {**tables(n_tokens), "HV": heads, "largest_step": 1.0, **given, **wanted})
    return gate, step


EXTREMES = torch.tensor([-1e30, -800.0, -100.0, -87.0, -30.0, -8.0, 0.0, 5.0, 19.9, 20.1, 100.0, 1e30])


def test_softplus_is_right_at_both_ends() -> None:
    gate, _ = gate_and_step({"a": EXTREMES[:, None], "A_log": torch.zeros(1)}, len(EXTREMES), 1)
    exact = golden.gate_from_raw(EXTREMES[:, None], torch.zeros(1))
    for x, found, wanted in zip(EXTREMES.tolist(), gate[:, 0].tolist(), exact[:, 0].tolist(), strict=True):
        if wanted > -(2.0**-126):
            assert found == 0, x
        else:
            assert abs(found / wanted - 1) < 2e-7 * (1 + max(0, -x)), x


def test_the_derivative_of_softplus_at_its_ends_and_in_the_middle() -> None:
    x = torch.tensor([[100.0], [21.0], [0.0], [-800.0]])
    da, parts = torch.empty(4, 1), torch.empty(2, 1, 1)
    given: dict[str, Value] = {
        "a": x, "A_log": torch.zeros(1), "dg": -torch.ones(4, 1), "da": da, "dA_log_parts": parts[0],
        "ddt_bias_parts": parts[1], "largest_step": 1.0,
    }  # fmt: skip
    run("gate_grads__c64_f32_f32__base", {**tables(4), **given})
    assert da[:, 0].tolist() == [1.0, 1.0, 0.5, 0.0]
    assert parts[1].item() == 2.5
    assert math.isclose(parts[0].item(), 121 + math.log(2), rel_tol=1e-6)


def test_steps_at_both_ends_are_numbers() -> None:
    _, step = gate_and_step({"b": EXTREMES[:, None], "largest_step": 2.0}, len(EXTREMES), 1)
    assert (step[0].item(), step[6].item(), step[-1].item()) == (0.0, 1.0, 2.0)
    assert ((step >= 0) & (step <= 2)).all()


def test_what_is_not_asked_for_is_left_alone() -> None:
    a, b, A_log, dt_bias = normal(70, HEADS), normal(70, HEADS, seed=1), normal(HEADS), normal(HEADS, seed=1)
    gate, step = gate_and_step({"a": a, "A_log": A_log, "dt_bias": dt_bias, "b": b}, 70)
    gate_alone, no_step = gate_and_step({"a": a, "A_log": A_log, "dt_bias": dt_bias}, 70)
    no_gate, step_alone = gate_and_step({"b": b}, 70)
    assert same_bits(gate, gate_alone) and same_bits(step, step_alone)
    assert no_gate.isnan().all() and no_step.isnan().all()
    unbiased, _ = gate_and_step({"a": a, "A_log": A_log}, 70)
    zeros, _ = gate_and_step({"a": a, "A_log": A_log, "dt_bias": torch.zeros(HEADS)}, 70)
    assert same_bits(unbiased, zeros) and not same_bits(unbiased, gate)


def gradients(lengths: tuple[int, ...], options: dict[str, Value]) -> dict[str, Tensor]:
    """What `gate_grads` and `gate_sums` write of fp32 raw ones, NaN where they write nothing."""
    n_tokens, slack, n_chunks = sum(lengths), 5, sum(-(-length // 64) for length in lengths)
    tokens = {name: normal(n_tokens + slack, HEADS, seed=i) for i, name in enumerate(("a", "b", "dg", "dbeta"))}
    found = {name: torch.full((n_tokens + slack, HEADS), float("nan")) for name in ("da", "db")}
    found |= {name: torch.full((n_chunks, HEADS), float("nan")) for name in ("dA_log_parts", "ddt_bias_parts")}
    found |= {name: torch.full((HEADS,), float("nan")) for name in ("dA_log", "ddt_bias")}
    given: dict[str, Value] = {"A_log": normal(HEADS), "dt_bias": normal(HEADS, seed=1), "largest_step": 2.0}
    given = {**tables(*lengths), **tokens, **given, **found, **options}
    run("gate_grads__c64_f32_f32__base", given)
    run("gate_sums__c64__base", {**given, "seq_chunks": given["seq_chunk_start"]})
    return found


def test_gradients_of_fp32_are_as_exact_as_fp32() -> None:
    lengths = (0, 15, 64, 65, 200)
    bounds = (0, 0, 15, 79, 144, 344, 349)  # the slack as a sequence: its rows are compared with nothing
    a, b, dg, dbeta = (normal(349, HEADS, seed=i) for i in range(4))
    found = gradients(lengths, {})
    exact = golden.gate_gradients(a, normal(HEADS), normal(HEADS, seed=1), dg.double(), bounds)
    db = golden.step_gradient(b, dbeta.double(), bounds, allow_neg_eigval=True)
    assert relative_l2(found["da"][:344], exact.da[:344]) < 2e-7
    assert relative_l2(found["db"][:344], db[:344]) < 2e-7
    assert relative_l2(found["dA_log"], exact.dA_log_parts[:-1].sum(0)) < 1e-6
    assert relative_l2(found["ddt_bias"], exact.ddt_bias_parts[:-1].sum(0)) < 1e-6
    assert found["da"][344:].isnan().all() and found["db"][344:].isnan().all()


def test_gradients_without_steps_or_without_gates() -> None:
    whole = gradients((70, 3), {})
    gates = gradients((70, 3), {"b": None, "dbeta": None, "db": None})
    assert all(same_bits(gates[name], whole[name]) for name in ("da", "dA_log", "ddt_bias"))
    assert gates["db"].isnan().all()
    left_out = dict.fromkeys(("a", "A_log", "dt_bias", "dg", "da"))
    steps = gradients((70, 3), {**left_out, "dA_log_parts": torch.zeros(3, HEADS)})
    assert same_bits(steps["db"], whole["db"])
    assert steps["da"].isnan().all() and steps["ddt_bias_parts"].isnan().all()


def summed(parts: Tensor, n_chunks: int) -> Tensor:
    sums = torch.empty(2, parts.shape[1])
    offsets = torch.tensor([0, n_chunks], dtype=torch.int32)
    given = {"seq_chunks": offsets, "dA_log_parts": parts, "ddt_bias_parts": 2 * parts}
    run("gate_sums__c64__base", {**given, "dA_log": sums[0], "ddt_bias": sums[1]})
    assert same_bits(2 * sums[0], sums[1])
    return sums[0]


@pytest.mark.parametrize("n_chunks", [0, 1, 64, 65, 200])
def test_parts_are_added_64_at_a_time_in_their_order(n_chunks: int) -> None:
    parts = normal(n_chunks, HEADS)
    wanted = torch.zeros(HEADS)
    for block in torch.split(parts, 64):
        total = torch.zeros(HEADS)
        for row in block:
            total = total + row
        wanted = wanted + total
    assert same_bits(summed(parts, n_chunks), wanted)


def test_room_for_more_chunks_changes_no_bit() -> None:
    parts = normal(70, HEADS)
    roomy = torch.cat([parts, torch.full((61, HEADS), float("nan"))])
    assert same_bits(summed(roomy, 70), summed(parts, 70))
