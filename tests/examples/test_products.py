"""The examples with products against float64, written from their equations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from loomgen.runtime.tables import window_tables
from loomgen.verify import relative_l2
from tests.examples.running import PACK, run, sequences, unwritten

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
CHUNK = 64
SSD = "ssd_chunk__c64_k64_v64_bf16__base"
MATMUL = "matmul_rowscale__c64_in512_out256_kb64_bf16__n64"
TWO_ROLES = "matmul_tma__m256_o512_k320_kb64_bf16__m128o256"
MASKED = "masked_product__c64_k64_v64_f16__base"

BOUNDS = {"y": 5e-3, "st": 4e-3, "out": 2e-3, "o": 1e-3}
"""Relative L2: what bf16 or fp16 operands and results allow."""


def normal(gen: torch.Generator, *shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape, generator=gen).to(dtype)


# --------------------------------------------------------------------------- gated linear attention


def ssd_inputs(lengths: tuple[int, ...], heads: int, value_heads: int, start: bool) -> dict[str, Tensor | None]:
    gen, n_tokens = torch.Generator().manual_seed(1), sum(lengths)
    loga = torch.nn.functional.logsigmoid(normal(gen, n_tokens, value_heads, dtype=F32)) / 4
    loga[torch.rand(loga.shape, generator=gen) < 1 / 32] = -316.0
    return {
        "x": normal(gen, n_tokens, value_heads, 64),
        "b": normal(gen, n_tokens, heads, 64),
        "cc": normal(gen, n_tokens, heads, 64),
        "loga": loga,
        "s0": normal(gen, len(lengths), value_heads, 64, 64, dtype=F32) if start else None,
    }


def recurrence(given: dict[str, Tensor | None], lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """S_t = a_t S_{t-1} + x_t b_t^T, y_t = S_t c_t, token by token in float64."""
    x, b, c, loga = (given[name].double() for name in ("x", "b", "cc", "loga"))  # type: ignore[union-attr]
    value_heads = x.shape[1]
    b, c = (tensor.repeat_interleave(value_heads // b.shape[1], dim=1) for tensor in (b, c))
    y, st = torch.zeros_like(x), torch.zeros(len(lengths), value_heads, 64, 64, dtype=torch.float64)
    for n, tokens in enumerate(sequences(lengths)):
        s0 = given["s0"]
        state = st[n] if s0 is None else s0[n].double()
        for t in range(tokens.start, tokens.stop):
            state = loga[t].exp()[:, None, None] * state + x[t][:, :, None] * b[t][:, None, :]
            y[t] = (state * c[t][:, None, :]).sum(-1)
        st[n] = state
    return {"y": y, "st": st}


@pytest.mark.parametrize(("heads", "start"), [((1, 2), True), ((2, 2), False)])
def test_the_chunked_scan_is_the_recurrence(heads: tuple[int, int], start: bool) -> None:
    given = ssd_inputs(PACK, *heads, start)
    shapes = {"y": given["x"], "st": torch.empty(len(PACK), heads[1], 64, 64)}
    results = run(
        SSD,
        {**given, **window_tables(PACK, CHUNK).by_name()},
        lambda: {
            "y": unwritten(*shapes["y"].shape, dtype=BF16),  # type: ignore[union-attr]
            "st": unwritten(*shapes["st"].shape, dtype=F32),  # type: ignore[union-attr]
        },
    )
    exact = recurrence(given, PACK)
    assert {name: relative_l2(results[name], exact[name]) <= BOUNDS[name] for name in exact} == {"y": True, "st": True}
    assert torch.equal(results["st"][0], torch.zeros(heads[1], 64, 64) if given["s0"] is None else given["s0"][0])


# --------------------------------------------------------------------------- products


def test_rows_of_a_product_are_scaled() -> None:
    gen, n_tokens = torch.Generator().manual_seed(2), sum(PACK)
    a, w, s = normal(gen, n_tokens, 512), normal(gen, 256, 512), normal(gen, n_tokens, dtype=F32)
    given = {"a": a, "w": w, "s": s, **window_tables((n_tokens,), CHUNK).by_name()}
    results = run(MATMUL, given, lambda: {"out": unwritten(n_tokens, 256, dtype=BF16)})
    exact = s.double()[:, None] * (a.double() @ w.double().T)
    assert relative_l2(results["out"], exact) <= BOUNDS["out"]


def test_later_tokens_of_a_chunk_do_not_count() -> None:
    """The scores of each chunk's last token, its own excepted, overflow fp16: an infinity times 0 would be NaN."""
    gen, heads, scale = torch.Generator().manual_seed(3), 2, 0.125
    q, k, v = (normal(gen, sum(PACK), heads, 64, dtype=F16) for _ in range(3))
    tables = window_tables(PACK, CHUNK).by_name()
    chunks = [
        slice(start, start + length)
        for start, length in zip(tables["chunk_start"].tolist(), tables["chunk_len"].tolist(), strict=True)
    ]
    for own in chunks:
        q[own.stop - 1], k[own.stop - 1] = 0, 60000
    exact = torch.zeros(v.shape, dtype=torch.float64)
    for own in chunks:
        scores = scale * torch.einsum("ihd,jhd->hij", q[own].double(), k[own].double())
        exact[own] = torch.einsum("hij,jhe->ihe", scores.tril(), v[own].double())
    results = run(
        MASKED, {"q": q, "k": k, "v": v, "scale": scale, **tables}, lambda: {"o": unwritten(*v.shape, dtype=F16)}
    )
    assert relative_l2(results["o"], exact) <= BOUNDS["o"]


# --------------------------------------------------------------------------- two roles


def test_a_product_of_two_roles() -> None:
    """Five turns of a ring of three slots; the same bits whatever the order of threads and of the hardware's work."""
    gen = torch.Generator().manual_seed(3)
    a, b = normal(gen, 256, 320), normal(gen, 512, 320)
    out = run(TWO_ROLES, {"a": a, "b": b}, lambda: {"out": unwritten(256, 512, dtype=BF16)})["out"]
    assert relative_l2(out, a.double() @ b.double().T) <= BOUNDS["out"]


def test_a_product_of_two_roles_is_exact_on_integers() -> None:
    gen = torch.Generator().manual_seed(4)
    a, b = (torch.randint(-2, 3, shape, generator=gen).to(BF16) for shape in ((256, 320), (512, 320)))
    out = run(TWO_ROLES, {"a": a, "b": b}, lambda: {"out": unwritten(256, 512, dtype=BF16)})["out"]
    assert torch.equal(out, (a.double() @ b.double().T).to(BF16))
