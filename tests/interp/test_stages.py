"""Three stages on a ragged pack: exact in float64, within the bounds when rounded and when ordered, and fast."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor

from loomgen import golden
from loomgen.interp import Mode, interpret
from loomgen.verify import relative_l2
from tests.interp import stages

H, HV, K, V, C = 2, 4, stages.K, stages.V, stages.C
LENGTHS = (0, 15, 64, 65, 200)
SCALE = K**-0.5


def tables(lengths: tuple[int, ...]) -> dict[str, Tensor]:
    bounds = (0, *accumulate(lengths))
    chunks = golden.chunks(bounds, C)
    per_sequence = [sum(c.sequence == n for c in chunks) for n in range(len(lengths))]
    return {
        "cu_seqlens": torch.tensor(bounds, dtype=torch.int32),
        "chunk_start": torch.tensor([c.start for c in chunks], dtype=torch.int32),
        "chunk_len": torch.tensor([c.end - c.start for c in chunks], dtype=torch.int32),
        "seq_chunk_start": torch.tensor([0, *accumulate(per_sequence)], dtype=torch.int32),
    }


def batch(lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """bf16 inputs (as float64) with gates down to -316; ``h0`` [N, HV, V, K]."""
    rng = torch.Generator().manual_seed(11)
    n_tokens = sum(lengths)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng).bfloat16().double()

    g = torch.nn.functional.logsigmoid(normal(n_tokens, HV)) / 16
    g[5::50] = -316.0
    q, k = normal(n_tokens, H, K), normal(n_tokens, H, K)
    return {
        "q": q,
        "k": k,
        "v": normal(n_tokens, HV, V),
        "g": g,
        "beta": torch.sigmoid(normal(n_tokens, HV)),
        "h0": normal(len(lengths), HV, V, K),
    }


def forward(lengths: tuple[int, ...], mode: Mode, dtype: torch.dtype) -> dict[str, Tensor]:
    """The three stages one after the other; intermediate and output tensors hold ``dtype``, the state at least f32."""
    inputs, bounds = batch(lengths), tables(lengths)
    prepared = golden.prep(inputs["q"], inputs["k"], inputs["g"], inputs["beta"], bounds["cu_seqlens"])
    n_tokens, n_chunks = sum(lengths), len(bounds["chunk_start"])
    shapes = {
        "A": (n_tokens, HV, C), "v_new": (n_chunks, HV, V, C), "o": (n_tokens, HV, V), "h": (n_chunks, HV, V, K),
        "ht": (len(lengths), HV, V, K),
    }  # fmt: skip
    tensors = {name: torch.zeros(shape, dtype=dtype) for name, shape in shapes.items()}
    tensors["ht"] = tensors["ht"].to(torch.promote_types(dtype, torch.float32))
    arguments: Mapping[str, Any] = {
        **inputs, **bounds, **tensors, **prepared._asdict(), "scale": SCALE,
    }  # fmt: skip
    interpret(stages.wy(lower_inverse=mode == "ordered"), arguments, mode=mode)
    interpret(stages.fwd_h(), arguments, mode=mode)
    interpret(stages.fwd_o(), arguments, mode=mode)
    return tensors


def test_float64_is_the_golden_stage_by_stage() -> None:
    inputs, bounds = batch(LENGTHS), tables(LENGTHS)["cu_seqlens"]
    prepared = golden.prep(inputs["q"], inputs["k"], inputs["g"], inputs["beta"], bounds)
    gates = (prepared.G, prepared.beta)
    inverse = golden.wy(prepared.kn, *gates, bounds)
    scanned = golden.fwd_h(prepared.kn, inputs["v"], inverse, *gates, inputs["h0"], bounds)
    o = golden.fwd_o(prepared.qn, prepared.kn, scanned.v_new, scanned.h, prepared.G, bounds, scale=SCALE)
    expected = {"A": inverse, "h": scanned.h, "v_new": scanned.v_new, "ht": scanned.final_state, "o": o}
    actual = forward(LENGTHS, "float64", torch.float64)
    assert actual.keys() == expected.keys()
    for name, exact in expected.items():
        torch.testing.assert_close(actual[name], exact, rtol=0, atol=1e-12, msg=name)


@pytest.mark.parametrize("mode", ["rounded", "ordered"])
def test_the_roundings_stay_within_the_bounds(mode: Mode) -> None:
    inputs = batch(LENGTHS)
    o, state = golden.recurrent_gated_delta_rule(
        inputs["q"], inputs["k"], inputs["v"], inputs["g"], inputs["beta"], scale=SCALE, initial_state=inputs["h0"],
        cu_seqlens=tables(LENGTHS)["cu_seqlens"], use_qk_l2norm=True, state_v_first=True,
    )  # fmt: skip
    actual = forward(LENGTHS, mode, torch.bfloat16)
    assert actual["o"].isfinite().all()
    assert 5e-4 < relative_l2(actual["o"], o) <= 4.5e-3
    assert 5e-4 < relative_l2(actual["ht"], state) <= 3.5e-3


def test_ordered_results_are_values_of_their_types() -> None:
    in_float64 = forward((70,), "ordered", torch.float64)
    in_bf16 = forward((70,), "ordered", torch.bfloat16)
    for name in ("A", "h", "v_new", "o"):
        assert torch.equal(in_float64[name], in_bf16[name].double()), name
    assert torch.equal(in_float64["ht"], in_float64["ht"].float().double())


def test_a_sequence_alone_gives_the_same_bits() -> None:
    """Position 80 of the pack, after a chunk that is not full: neither neighbours nor chunk numbers matter."""
    packed, alone = batch((15, 65, 66)), batch((15, 65, 66))
    results = []
    for lengths, data in (((15, 65, 66), packed), ((66,), {n: x[80:] for n, x in alone.items() if n != "h0"})):
        table = tables(lengths)
        prepared = golden.prep(data["q"], data["k"], data["g"], data["beta"], table["cu_seqlens"])
        inverse = torch.zeros(*data["v"].shape[:2], C)
        arguments = {**data, **table, **prepared._asdict(), "A": inverse}
        interpret(stages.wy(lower_inverse=True), arguments, mode="ordered")
        results.append(inverse)
    assert torch.equal(results[0][80:], results[1])


def test_512_tokens_in_the_ordered_mode_take_seconds() -> None:
    begin = time.perf_counter()
    forward((512,), "ordered", torch.bfloat16)
    assert time.perf_counter() - begin < 20
