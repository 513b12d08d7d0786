"""The examples without products, paged and in place: against float64, and bit by bit where nothing is approximate."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from torch import Tensor

from loomgen.runtime.tables import window_tables
from loomgen.verify import relative_l2, same_bits
from tests.examples.running import PACK, Inputs, gaps_are_untouched, padded, run, sequences, unwritten

BF16, F32 = torch.bfloat16, torch.float32
UPDATE = "paged_update__k64_v64_bf16_bf16__base"
DECODE = {F32: "decode__k128_v128_bf16_f32__v32", BF16: "decode__k128_v128_bf16_bf16__v32"}
CONV = {BF16: "conv__c64_w4_dim256_bf16__cb64", F32: "conv__c64_w4_dim256_f32__cb64"}


def normal(gen: torch.Generator, *shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape, generator=gen).to(dtype)


def slots(*numbers: int) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


# --------------------------------------------------------------------------- an update in place


def test_a_paged_state_takes_up_an_outer_product() -> None:
    """The fresh sequence's slot holds NaN, which must not count; no other slot and no gap is touched."""
    gen, n, heads = torch.Generator().manual_seed(4), 4, 2
    index, resumed = slots(3, -1, 0, 5), torch.tensor([True, True, True, False])
    k, v = (normal(gen, n, heads, 64) for _ in range(2))
    keep = torch.rand(n, heads, generator=gen)
    before = normal(gen, 6, heads, 64, 64)
    before[5] = float("nan")
    given = {"k": k, "v": v, "keep": keep, "index": index, "resumed": resumed}
    pool = run(UPDATE, given, lambda: {"pool": padded(before, gap=8)})["pool"]
    expected = before.clone()
    for row, slot in enumerate(index.tolist()):
        if slot >= 0:
            old = keep[row][:, None, None] * before[slot].float() if resumed[row] else torch.zeros(heads, 64, 64)
            expected[slot] = (old + v[row].float()[:, :, None] * k[row].float()[:, None, :]).bfloat16()
    assert same_bits(pool.contiguous(), expected)
    assert gaps_are_untouched(pool)


# --------------------------------------------------------------------------- decode


def decode_inputs(n: int, heads: int, value_heads: int) -> dict[str, Tensor | int | float]:
    gen, width = torch.Generator().manual_seed(5), 2 * heads * 128 + value_heads * 128
    a = normal(gen, n, value_heads)
    a[0] = 60.0
    return {
        "qkv": padded(normal(gen, n, width), gap=16),
        "a": a,
        "b": normal(gen, n, value_heads),
        "A_log": normal(gen, value_heads, dtype=F32),
        "dt_bias": normal(gen, value_heads, dtype=F32),
        "scale": 128**-0.5,
        "eps": 1e-6,
        "H": heads,
    }


def decoded(given: Inputs, index: list[int], pool: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """One step of every live row in float64: the outputs and the pool after it."""
    value_heads = pool.shape[1]
    wide = {name: value.double() for name, value in given.items() if isinstance(value, Tensor)}
    ends = (heads * 128, 2 * heads * 128)
    q, k, v = (wide["qkv"][:, part] for part in (slice(ends[0]), slice(*ends), slice(ends[1], None)))
    q, k = (x.reshape(-1, heads, 128).repeat_interleave(value_heads // heads, dim=1) for x in (q, k))
    q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    v = v.reshape(-1, value_heads, 128)
    decay = torch.exp(-wide["A_log"].exp() * torch.nn.functional.softplus(wide["a"] + wide["dt_bias"]))
    beta = wide["b"].sigmoid()
    out, after = torch.zeros_like(v), pool.double()
    for row, slot in enumerate(index):
        if slot > 0:
            state = decay[row][:, None, None] * after[slot]
            x = beta[row][:, None] * (v[row] - (state @ k[row][:, :, None])[..., 0])
            after[slot] = state + x[:, :, None] * k[row][:, None, :]
            out[row] = 128**-0.5 * (after[slot] @ q[row][:, :, None])[..., 0]
    return out, after


@pytest.mark.parametrize(("dtype", "bound"), [(F32, 2e-6), (BF16, 3e-3)])
def test_a_decode_step_advances_the_states_of_live_rows(dtype: torch.dtype, bound: float) -> None:
    index, heads, value_heads = [2, 0, 4, -1, 1], 2, 4
    before = normal(torch.Generator().manual_seed(6), 6, value_heads, 128, 128, dtype=dtype)
    given = {**decode_inputs(len(index), heads, value_heads), "index": slots(*index)}
    results = run(
        DECODE[dtype],
        given,
        lambda: {"out": unwritten(5, value_heads, 128, dtype=BF16), "pool": padded(before, gap=8)},
    )
    out, after = decoded(given, index, before, heads)
    live, pool = [2, 4, 1], results["pool"]
    assert relative_l2(results["out"], out) <= 3e-3
    assert relative_l2(pool[live], after[live]) <= bound
    assert not results["out"][[1, 3]].any()
    assert all(same_bits(pool[slot].contiguous(), before[slot]) for slot in (0, 3, 5))
    assert gaps_are_untouched(pool)


# --------------------------------------------------------------------------- convolution


def conv_inputs(dtype: torch.dtype) -> dict[str, Tensor]:
    """Sequences of :data:`PACK`: empty, one of them padded, shorter than the history, one token."""
    gen = torch.Generator().manual_seed(7)
    return {
        "x": normal(gen, sum(PACK), 256, dtype=dtype),
        "weight": normal(gen, 256, 4, dtype=dtype),
        "bias": normal(gen, 256, dtype=dtype),
        "index": slots(4, 1, 7, 0, 2, 3),
        "resumed": torch.tensor([True, False, True, True, False, True]),
    }


def convolved(given: Inputs, lengths: tuple[int, ...], state: Tensor) -> tuple[Tensor, Tensor]:
    """Gather, convolve, scatter: the sums in fp32 before the activation, and the states afterwards."""
    x, weight, bias = (cast(Tensor, given[name]) for name in ("x", "weight", "bias"))
    index, resumed = cast(Tensor, given["index"]).tolist(), cast(Tensor, given["resumed"]).tolist()
    sums, after = unwritten(*x.shape, dtype=F32), state.clone()
    for tokens, slot, old in zip(sequences(lengths), index, resumed, strict=True):
        if slot == 0:
            continue
        history = state[slot].T if old else torch.zeros(3, x.shape[1], dtype=x.dtype)
        window = torch.cat([history, x[tokens]])
        total = bias.float().expand(tokens.stop - tokens.start, -1)
        for tap in range(4):
            total = total + (window[tap : tap + len(total)] * weight[:, tap]).float()
        sums[tokens] = total
        after[slot] = window[len(window) - 3 :].T
    return sums, after


@pytest.mark.parametrize("dtype", [BF16, F32])
def test_a_convolution_equals_gather_convolve_scatter(dtype: torch.dtype) -> None:
    given = conv_inputs(dtype)
    before = normal(torch.Generator().manual_seed(8), 8, 256, 3, dtype=dtype)
    before[[1, 2]] = float("nan")  # fresh sequences do not see what their slots hold
    sums, after = convolved(given, PACK, before)
    tables = window_tables(PACK, 64).by_name()

    def result(silu: bool) -> dict[str, Tensor]:
        def fresh() -> dict[str, Tensor]:
            return {"y": unwritten(sum(PACK), 256, dtype=dtype), "state": before.mT.contiguous().mT}

        return run(CONV[dtype], {**given, **tables, "silu": silu}, fresh)

    plain, smooth = result(False), result(True)
    live = ~torch.isnan(sums[:, 0])
    assert live.sum() == sum(PACK) - 65
    assert same_bits(plain["y"][live], sums[live].to(dtype))
    assert torch.isnan(plain["y"][~live]).all()
    for results in (plain, smooth):
        assert same_bits(results["state"].contiguous(), after)
    exact = sums[live].double()
    assert relative_l2(smooth["y"][live], exact * exact.sigmoid()) <= (3e-3 if dtype is BF16 else 1e-6)


def one_channel(dtype: torch.dtype, x: list[float], weight: list[float], bias: float | None) -> float:
    """The last sum of a fresh sequence, the same in every channel."""
    given = {
        "x": torch.tensor(x, dtype=dtype)[:, None].expand(-1, 256).contiguous(),
        "weight": torch.tensor(weight, dtype=dtype).expand(256, 4).contiguous(),
        "bias": None if bias is None else torch.full((256,), bias, dtype=dtype),
        "index": slots(1),
        "resumed": torch.tensor([False]),
        "silu": False,
        **window_tables((len(x),), 64).by_name(),
    }
    results = run(
        CONV[dtype],
        given,
        lambda: {"y": unwritten(len(x), 256, dtype=dtype), "state": torch.zeros(2, 256, 3, dtype=dtype)},
    )
    assert (results["y"] == results["y"][:, :1]).all()
    return float(results["y"][-1, 0])


def test_the_bias_comes_first() -> None:
    """fp32 numbers near 1e8 are 8 apart: 3 added to the bias is lost, twice; added last, 6 would make it 100000008."""
    assert one_channel(F32, [3.0, 3.0], [0.0, 0.0, 1.0, 1.0], 1e8) == 1e8


def test_without_a_bias_the_sum_starts_from_zero() -> None:
    assert one_channel(F32, [1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 10.0, 100.0, 1000.0], None) == 5432.0


def test_products_are_rounded_before_they_are_added() -> None:
    """1.0078125^2 = 1.01568603515625 is 1.015625 in bf16."""
    assert one_channel(BF16, [1.0078125], [0.0, 0.0, 0.0, 1.0078125], -1.015625) == 0.0
