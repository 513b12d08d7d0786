"""The golden's two forms against each other, against hand-worked values and against what they promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any

import pytest
import torch
from torch import Tensor

from loomgen.golden import (
    Chunk,
    chunk_gated_delta_rule,
    chunks,
    fwd_h,
    fwd_o,
    prep,
    recurrent_gated_delta_rule,
    wy,
    wy_recompute,
)
from loomgen.golden.layout import sequence_bounds

LENGTHS = (0, 15, 64, 65, 200)
FORMS = (recurrent_gated_delta_rule, chunk_gated_delta_rule)
Form = Callable[..., tuple[Tensor, Tensor]]


def offsets(lengths: tuple[int, ...]) -> Tensor:
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)


def inputs(lengths: tuple[int, ...], heads: int = 2, value_heads: int = 4, dim: int = 16) -> dict[str, Any]:
    """Random float64 inputs with a gate of -316 in every seventh token."""
    rng = torch.Generator().manual_seed(1)
    n_tokens = sum(lengths)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    g = torch.nn.functional.logsigmoid(normal(n_tokens, value_heads)) / 4
    g[3::7] = -316.0
    return {
        "q": normal(n_tokens, heads, dim),
        "k": normal(n_tokens, heads, dim),
        "v": normal(n_tokens, value_heads, dim + 8),
        "g": g,
        "beta": torch.sigmoid(normal(n_tokens, value_heads)),
        "initial_state": normal(len(lengths), value_heads, dim, dim + 8),
        "cu_seqlens": offsets(lengths),
    }


def test_chunks_equal_recurrence_on_a_ragged_pack() -> None:
    case = inputs(LENGTHS)
    o, state = recurrent_gated_delta_rule(**case, use_qk_l2norm=True)
    o_chunk, state_chunk = chunk_gated_delta_rule(**case, use_qk_l2norm=True)
    assert o.shape == case["v"].shape and state.shape == case["initial_state"].shape
    torch.testing.assert_close(o_chunk, o, rtol=0, atol=1e-12)
    torch.testing.assert_close(state_chunk, state, rtol=0, atol=1e-12)
    torch.testing.assert_close(state[0], case["initial_state"][0], rtol=0, atol=0)


def test_gradients_of_both_forms_agree() -> None:
    case = inputs((0, 5, 16, 23), dim=4)
    weights = torch.randn(case["v"].shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    gradients = []
    for form in (recurrent_gated_delta_rule, partial(chunk_gated_delta_rule, chunk=8)):
        leaves = {n: x.clone().requires_grad_() for n, x in case.items() if n != "cu_seqlens"}
        o, state = form(**leaves, cu_seqlens=case["cu_seqlens"], use_qk_l2norm=True)
        torch.autograd.backward((o * weights).sum() + state.square().sum())
        gradients.append({n: leaf.grad for n, leaf in leaves.items()})
    for name, gradient in gradients[0].items():
        assert gradient is not None and gradient.abs().max() > 0
        other = gradients[1][name]
        assert other is not None and (other - gradient).abs().max() <= 1e-12, name


@pytest.mark.parametrize("form", FORMS)
def test_two_tokens_by_hand(form: Form) -> None:
    """K = V = 1: S1 = b1 v1 k1; S2 = a S1 + b2 (v2 - a S1 k2) k2, with a = exp(g2)."""
    column = {n: torch.tensor(x, dtype=torch.float64)[:, None] for n, x in (
        ("q", [1.0, 3.0]), ("k", [2.0, 1.0]), ("v", [5.0, 7.0]), ("g", [-1.0, -math.log(2)]), ("beta", [0.5, 0.25]),
    )}  # fmt: skip
    case = {n: x if n in ("g", "beta") else x[:, None] for n, x in column.items()}
    o, state = form(**case, scale=1.0)
    torch.testing.assert_close(o.flatten(), torch.tensor([5.0, 3 * 3.625], dtype=torch.float64))
    torch.testing.assert_close(state.flatten(), torch.tensor([3.625], dtype=torch.float64))


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_is_its_rows(form: Form) -> None:
    case = inputs((12,))
    rows = {n: torch.stack([x, x.flip(0)]) for n, x in case.items() if n not in ("cu_seqlens", "initial_state")}
    o, state = form(**rows)
    for row in range(2):
        alone = form(**{n: x[row] for n, x in rows.items()})
        torch.testing.assert_close(o[row], alone[0], rtol=0, atol=1e-14)
        torch.testing.assert_close(state[row], alone[1][0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_state_layout_scale_and_missing_gate(form: Form) -> None:
    case = inputs((9,)) | {"g": torch.zeros(9, 4, dtype=torch.float64)}
    o, state = form(**case)
    turned = case | {"initial_state": case["initial_state"].mT, "g": None}
    o_turned, state_turned = form(**turned, state_v_first=True, scale=0.5)
    torch.testing.assert_close(o_turned, 2 * o, rtol=1e-13, atol=1e-13)  # the default scale is 16^-1/2
    torch.testing.assert_close(state_turned.mT, state, rtol=0, atol=0)


@pytest.mark.parametrize("form", FORMS)
def test_inputs_are_kept_and_slack_changes_nothing(form: Form) -> None:
    case = inputs((3, 6))
    padded = dict(case)
    for name in ("q", "k", "v", "g", "beta"):
        slack = torch.full((2, *case[name].shape[1:]), torch.nan, dtype=torch.float64)
        padded[name] = torch.cat([case[name], slack]).requires_grad_()
    before = {n: x.detach().clone() for n, x in padded.items()}
    o, state = form(**padded, use_qk_l2norm=True)
    torch.autograd.backward(o.sum())
    expected = form(**case, use_qk_l2norm=True)
    assert torch.equal(o[:9], expected[0]) and torch.equal(state, expected[1])
    assert torch.equal(o[9:], torch.zeros_like(o[9:]))
    for name, x in before.items():
        torch.testing.assert_close(padded[name].detach(), x, rtol=0, atol=0, equal_nan=True)
    for name in ("q", "k", "v", "g", "beta"):
        gradient = padded[name].grad
        assert gradient is not None and gradient.isfinite().all() and not gradient[9:].any()


@pytest.mark.parametrize("form", FORMS)
def test_no_tokens_and_no_sequences(form: Form) -> None:
    nothing = {n: x[:0] for n, x in inputs((1,)).items() if n not in ("cu_seqlens", "initial_state")}
    o, state = form(**nothing, cu_seqlens=torch.tensor([0]))
    assert o.shape == (0, 4, 24) and state.shape == (0, 4, 16, 24)


def test_dtype_is_the_callers() -> None:
    o, state = recurrent_gated_delta_rule(**inputs((4,)), dtype=torch.float32)
    assert o.dtype == state.dtype == torch.float32


def test_chunk_table() -> None:
    table = chunks((0, 0, 3, 7), 2)
    assert table == tuple(Chunk(sequence=n, start=a, end=b) for n, a, b in ((1, 0, 2), (1, 2, 3), (2, 3, 5), (2, 5, 7)))


def test_prep_clamps_gates_and_normalises() -> None:
    g = torch.tensor([-1.0, -316.0, -1.0], dtype=torch.float64)[:, None] * math.log(2)
    beta = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)[:, None]
    q = torch.tensor([3.0, 4.0], dtype=torch.float64).expand(3, 1, 2)
    prepared = prep(q, 2 * q, g, beta, [0, 3], chunk=2)
    assert prepared.G.shape == prepared.beta.shape == (2, 1, 2)
    torch.testing.assert_close(prepared.G.flatten(), torch.tensor([-1.0, -129.0, -1.0, -1.0], dtype=torch.float64))
    assert prepared.beta.flatten().tolist() == [0.25, 0.5, 0.75, 0.0]
    torch.testing.assert_close(prepared.qn[0, 0], torch.tensor([0.6, 0.8], dtype=torch.float64), rtol=0, atol=1e-7)
    assert torch.equal(prep(q, q, g, beta, [0, 3], normalise=False).kn, q)


def test_wy_row_by_row() -> None:
    """Rows of A are those of the inverse, and stay inside their chunk."""
    case = inputs((0, 5, 9))
    kn, v, beta, offsets = case["k"] / 4, case["v"], case["beta"], case["cu_seqlens"]
    prepared = prep(case["q"], kn, case["g"], beta, offsets, normalise=False, chunk=4)
    A = wy(kn, prepared.G, prepared.beta, offsets)
    transform = wy_recompute(kn, v, prepared.G, prepared.beta, A, offsets)
    assert A.shape == (14, 4, 4)
    for c, (begin, end) in enumerate(((0, 4), (4, 5), (5, 9), (9, 13), (13, 14))):
        key, gate, step = kn[begin:end, 1], prepared.G[c, 3, : end - begin], beta[begin:end, 3]
        inverse = A[begin:end, 3, : end - begin]
        lower = (step[:, None] * torch.exp2(gate[:, None] - gate[None, :]) * (key @ key.T)).tril(-1)
        eye = torch.eye(end - begin, dtype=torch.float64)
        torch.testing.assert_close(inverse @ (eye + lower), eye, rtol=0, atol=1e-13)
        assert not A[begin:end, :, end - begin :].any()
        torch.testing.assert_close(transform.u[begin:end, 3], inverse @ (step[:, None] * v[begin:end, 3]))
        weighted = (step * torch.exp2(gate))[:, None] * key
        torch.testing.assert_close(transform.w[begin:end, 3], inverse @ weighted)


def test_the_scan_applies_the_wy_representation() -> None:
    """n = A beta (v - 2^G S k) is u - S w, whatever state enters."""
    case = inputs((0, 5, 9))
    v, offsets, states = case["v"], case["cu_seqlens"], case["initial_state"].mT
    prepared = prep(case["q"], case["k"], case["g"], case["beta"], offsets, chunk=4)
    gates = (prepared.G, prepared.beta)
    A = wy(prepared.kn, *gates, offsets)
    transform = wy_recompute(prepared.kn, v, *gates, A, offsets)
    scanned = fwd_h(prepared.kn, v, A, *gates, states, offsets)
    for c, (begin, end) in enumerate(((0, 4), (4, 5), (5, 9), (9, 13), (13, 14))):
        expected = transform.u[begin:end] - torch.einsum("hvk,thk->thv", scanned.h[c], transform.w[begin:end])
        torch.testing.assert_close(scanned.v_new[c, :, :, : end - begin], expected.permute(1, 2, 0))
        assert not scanned.v_new[c, :, :, end - begin :].any()


def test_scan_and_output_of_one_chunk() -> None:
    """One token a chunk: n = A beta (v - 2^G S k), S' = 2^G S + n k^T, o = scale (2^G S q + (q.k) n)."""
    rng = torch.Generator().manual_seed(3)
    q, k, v, h0 = (
        torch.randn(*s, generator=rng, dtype=torch.float64) for s in ((1, 1, 2), (1, 1, 2), (1, 1, 3), (1, 1, 3, 2))
    )
    G, beta, A = (torch.full((1, 1, 1), x, dtype=torch.float64) for x in (-2.0, 0.5, 3.0))
    scanned = fwd_h(k, v, A, G, beta, h0, [0, 1])
    new = 3 * 0.5 * (v[0, 0] - h0[0, 0] @ k[0, 0] / 4)
    torch.testing.assert_close(scanned.v_new[0, 0, :, 0], new)
    assert torch.equal(scanned.h[0], h0[0])
    torch.testing.assert_close(scanned.final_state[0, 0], h0[0, 0] / 4 + torch.outer(new, k[0, 0]))
    o = fwd_o(q, k, scanned.v_new, scanned.h, G, [0, 1], scale=3.0)
    torch.testing.assert_close(o[0, 0], 3 * (h0[0, 0] @ q[0, 0] / 4 + (q[0, 0] @ k[0, 0]) * new))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cu_seqlens": torch.tensor([1, 9])}, "the first 0"),
        ({"cu_seqlens": torch.tensor([0, 5, 3])}, "never decrease"),
        ({"cu_seqlens": torch.tensor([0, 10])}, "past the 9 tokens"),
        ({"q": torch.zeros(9, 3, 16)}, "want one shape"),
        ({"q": torch.zeros(9, 3, 16), "k": torch.zeros(9, 3, 16)}, "multiple of the 3 key heads"),
        ({"beta": torch.zeros(9, 2)}, "beta has shape"),
        ({"initial_state": torch.zeros(2, 4, 16, 24)}, "initial_state has shape"),
        ({"v": torch.zeros(9, 4)}, r"want \[T, HV, V\]"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recurrent_gated_delta_rule(**(inputs((9,)) | change))


def test_one_batch_row_with_offsets() -> None:
    two_rows = {n: x.expand(2, *x.shape) for n, x in inputs((4,)).items() if n not in ("cu_seqlens", "initial_state")}
    with pytest.raises(ValueError, match="batch size 2"):
        recurrent_gated_delta_rule(**two_rows, cu_seqlens=torch.tensor([0, 4]))
    assert sequence_bounds([0, 0, 4], 4) == (0, 0, 4)
