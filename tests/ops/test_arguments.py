"""Wrong arguments: named, with their value and what was expected, before anything is allocated or launched."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from loomgen.ops import chunk_gated_delta_rule
from loomgen.ops.forward import Forward
from tests.ops.call import offsets

BF16 = torch.bfloat16
INT32 = torch.int32


def zeros(*shape: int, dtype: torch.dtype = BF16, device: str = "cpu") -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


def call(**changes: Any) -> Any:
    """A call with 2 key heads, 4 value heads and 10 tokens in two sequences."""
    given: dict[str, Any] = {
        "q": zeros(1, 10, 2, 128),
        "k": zeros(1, 10, 2, 128),
        "v": zeros(1, 10, 4, 128),
        "g": torch.zeros(1, 10, 4),
        "beta": torch.zeros(1, 10, 4),
        "cu_seqlens": offsets(0, 4, 9),
    }
    return chunk_gated_delta_rule(**{**given, **changes})


@pytest.fixture(autouse=True)
def launches(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that passed every check; none of them runs."""
    passed: list[Any] = []

    def record(*given: Any) -> Forward:
        passed.append(given)
        return Forward(given[0].v, None, None)

    monkeypatch.setattr("loomgen.ops.chunk.forward", record)
    return passed


WRONG_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"q": zeros(10, 2, 128)}, "q: shape [10, 2, 128], expected 4 dims, [B, T, heads, dim]"),
    ({"v": zeros(10, 4, 128)}, "v: shape [10, 4, 128], expected 4 dims, [B, T, heads, dim]"),
    ({"k": zeros(1, 10, 4, 128)}, "k: shape [1, 10, 4, 128], expected [1, 10, 2, 128], the shape of q"),
    ({"v": zeros(1, 9, 4, 128)}, "v: shape [1, 9, 4, 128], expected [1, 10, 4, 128], B and T of q"),
    ({"v": zeros(1, 10, 3, 128)}, "v: 3 heads, expected a multiple of the 2 heads of q and k"),
    ({"v": zeros(1, 10, 0, 128)}, "v: 0 heads, expected a multiple of the 2 heads of q and k"),
    ({"q": zeros(1, 10, 0, 128), "k": zeros(1, 10, 0, 128)}, "q: 0 heads, expected at least 1"),
    ({"q": zeros(1, 10, 2, 96), "k": zeros(1, 10, 2, 96)}, "q: head dim 96, expected 64 or 128"),
    ({"v": zeros(1, 10, 4, 64)}, "v: head dim 64, expected 128, the head dim of q and k"),
    ({"g": torch.zeros(1, 10, 2)}, "g: shape [1, 10, 2], expected [1, 10, 4], [B, T, HV] of v"),
    ({"beta": torch.zeros(1, 10)}, "beta: shape [1, 10], expected [1, 10, 4], [B, T, HV] of v"),
    ({"k": zeros(1, 10, 2, 128, device="meta")}, "k: on meta, expected cpu"),
    ({"cu_seqlens": torch.zeros(3, dtype=INT32, device="meta")}, "cu_seqlens: on meta, expected cpu"),
    ({"cu_seqlens_cpu": torch.zeros(3, dtype=INT32, device="meta")}, "cu_seqlens_cpu: on meta, expected cpu"),
    ({"scale": float("inf")}, "scale: inf, expected a finite number of fp32"),
    ({"scale": float("nan")}, "scale: nan, expected a finite number of fp32"),
    ({"scale": -1e40}, "scale: -1e+40, expected a finite number of fp32"),
    ({"scale": 10**60}, f"scale: {10**60}, expected a finite number of fp32"),
    ({"save": "all"}, "save: 'all', expected minimal or states"),
    ({"save": None}, "save: None, expected minimal or states"),
    ({"chunk_size": 32}, "chunk_size: 32, expected 64"),
    (
        {"initial_state": torch.zeros(3, 4, 128, 128)},
        "initial_state: 3 states, expected 2, one for each sequence",
    ),
    (
        {"initial_state": torch.zeros(2, 2, 128, 128)},
        "initial_state: shape [2, 2, 128, 128], expected [2, 4, 128, 128], [N, HV, K, V]",
    ),
    (
        {"initial_state": torch.zeros(4, 128, 128), "state_v_first": True},
        "initial_state: shape [4, 128, 128], expected [2, 4, 128, 128], [N, HV, V, K]",
    ),
    ({"allow_neg_eigval": True}, "allow_neg_eigval: True, expected False without use_beta_sigmoid_in_kernel"),
    ({"use_gate_in_kernel": True}, "A_log: None, expected a tensor, [HV], with use_gate_in_kernel"),
    (
        {"use_gate_in_kernel": True, "A_log": torch.zeros(4), "g": None},
        "g: None, expected raw gates, [B, T, HV], with use_gate_in_kernel",
    ),
    ({"use_gate_in_kernel": True, "A_log": torch.zeros(2)}, "A_log: shape [2], expected [4], [HV] of v"),
    ({"use_gate_in_kernel": True, "A_log": torch.zeros(1, 4)}, "A_log: shape [1, 4], expected [4], [HV] of v"),
    (
        {"use_gate_in_kernel": True, "A_log": torch.zeros(4), "dt_bias": torch.zeros(4, 128)},
        "dt_bias: shape [4, 128], expected [4], [HV] of v",
    ),
    (
        {"use_gate_in_kernel": True, "A_log": torch.zeros(4, device="meta")},
        "A_log: on meta, expected cpu",
    ),
    ({"A_log": torch.zeros(4)}, "A_log: given, expected None without use_gate_in_kernel"),
    ({"dt_bias": torch.zeros(4)}, "dt_bias: given, expected None without use_gate_in_kernel"),
    (
        {"backend": "interp"},
        "backend: 'interp', expected None or one of cuda, emulate, emulate:sm_90a, emulate:sm_100a, emulate:sm_103a",
    ),
    ({"backend": "cuda"}, "q: on cpu, expected cuda with backend cuda"),
]

WRONG_OFFSETS: list[tuple[dict[str, Any], str]] = [
    ({"cu_seqlens": offsets(0, 4, 9)[None]}, "cu_seqlens: shape [1, 3], expected 1 dim, [N + 1]"),
    ({"cu_seqlens": offsets()}, "cu_seqlens: 0 offsets, expected N + 1 of them for N sequences, at least one"),
    ({"cu_seqlens": offsets(0)}, "cu_seqlens: 1 offset, expected N + 1 of them for N sequences, at least one"),
    ({"cu_seqlens": offsets(1, 4)}, "cu_seqlens: starts at 1, expected 0"),
    ({"cu_seqlens": offsets(0, 6, 4, 9)}, "cu_seqlens: 6 then 4 at 2, expected offsets that never decrease"),
    ({"cu_seqlens": offsets(0, 4, 11)}, "cu_seqlens: ends at 11, expected at most the 10 tokens of q"),
    ({"cu_seqlens_cpu": offsets(0, 5, 9)}, "cu_seqlens_cpu: [0, 5, 9], expected cu_seqlens, [0, 4, 9]"),
    ({"cu_seqlens_cpu": offsets(0, 4, 9)[None]}, "cu_seqlens_cpu: shape [1, 3], expected 1 dim, [N + 1]"),
    (
        {"cu_seqlens": None, "cu_seqlens_cpu": offsets(0, 4, 9)},
        "cu_seqlens_cpu: given, expected None without cu_seqlens",
    ),
    ({"cu_seqlens": None, "chunk_indices": zeros(1, 2)}, "chunk_indices: given, expected None without cu_seqlens"),
    ({"chunk_indices": zeros(1, 2, dtype=INT32)}, "chunk_indices: shape [1, 2], expected [2, 2]"),
    (
        {"chunk_indices": torch.tensor([[0, 0], [0, 1]])},
        "chunk_indices: [0, 1] at 1, expected [1, 0], the sequence and its chunk",
    ),
]


@pytest.mark.parametrize(("changes", "message"), WRONG_VALUES + WRONG_OFFSETS)
def test_a_wrong_value_is_named_with_what_was_expected(
    changes: dict[str, Any], message: str, launches: list[Any]
) -> None:
    with pytest.raises(ValueError) as raised:
        call(**changes)
    assert (str(raised.value), launches) == (message, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": [1.0]}, "q: list, expected a tensor"),
        ({"beta": None}, "beta: NoneType, expected a tensor"),
        ({"q": torch._neg_view(zeros(1, 10, 2, 128))}, "q: negated when it is read, expected its resolve_neg()"),
        (
            {"q": torch.nested.nested_tensor([zeros(10, 2, 128)])},
            "q: nested, expected a dense tensor, torch.strided",
        ),
        ({"q": zeros(1, 10, 2, 128).to_sparse()}, "q: torch.sparse_coo, expected a dense tensor, torch.strided"),
        ({"cu_seqlens": [0, 9]}, "cu_seqlens: list, expected a tensor"),
        ({"q": torch.zeros(1, 10, 2, 128)}, "q: torch.float32, expected torch.bfloat16 or torch.float16"),
        ({"k": zeros(1, 10, 2, 128, dtype=torch.float16)}, "k: torch.float16, expected torch.bfloat16, the dtype of q"),
        ({"v": torch.zeros(1, 10, 4, 128)}, "v: torch.float32, expected torch.bfloat16, the dtype of q"),
        ({"g": zeros(1, 10, 4)}, "g: torch.bfloat16, expected torch.float32"),
        (
            {"beta": zeros(1, 10, 4, dtype=torch.float16)},
            "beta: torch.float16, expected torch.float32 or torch.bfloat16",
        ),
        ({"initial_state": zeros(2, 4, 128, 128)}, "initial_state: torch.bfloat16, expected torch.float32"),
        ({"cu_seqlens": torch.tensor([0.0, 9.0])}, "cu_seqlens: torch.float32, expected torch.int32 or torch.int64"),
        ({"chunk_indices": zeros(2, 2)}, "chunk_indices: torch.bfloat16, expected torch.int32 or torch.int64"),
        (
            {"use_gate_in_kernel": True, "A_log": torch.zeros(4).double()},
            "A_log: torch.float64, expected torch.float32",
        ),
        (
            {"use_gate_in_kernel": True, "A_log": torch.zeros(4), "dt_bias": torch.zeros(4, dtype=INT32)},
            "dt_bias: torch.int32, expected torch.float32",
        ),
        ({"use_gate_in_kernel": True, "A_log": [0.0] * 4}, "A_log: list, expected a tensor"),
        (
            {"use_gate_in_kernel": True, "A_log": torch.zeros(4), "g": torch.zeros(1, 10, 4).double()},
            "g: torch.float64, expected torch.float32 or torch.bfloat16 or torch.float16",
        ),
        (
            {"use_beta_sigmoid_in_kernel": True, "beta": torch.zeros(1, 10, 4).double()},
            "beta: torch.float64, expected torch.float32 or torch.bfloat16 or torch.float16",
        ),
        ({"scale": "1"}, "scale: '1', expected a Python number"),
        ({"scale": True}, "scale: True, expected a Python number"),
    ],
)
def test_a_wrong_type_is_named_with_what_was_expected(
    changes: dict[str, Any], message: str, launches: list[Any]
) -> None:
    with pytest.raises(TypeError) as raised:
        call(**changes)
    assert (str(raised.value), launches) == (message, [])


def test_what_is_not_supported_yet_is_refused(launches: list[Any]) -> None:
    with pytest.raises(NotImplementedError, match=r"^cp_context: context parallelism is not supported yet"):
        call(cp_context=object())
    assert launches == []


def test_tensors_elsewhere_are_refused() -> None:
    meta = {name: zeros(1, 10, 2, 128, device="meta") for name in ("q", "k", "v")}
    gates = {name: torch.zeros(1, 10, 2, device="meta") for name in ("g", "beta")}
    with pytest.raises(ValueError, match=r"^q: on meta, expected cpu with backend emulate$"):
        call(**meta, **gates, cu_seqlens=None)


def test_a_batch_of_several_rows_takes_no_offsets() -> None:
    tokens = {name: zeros(2, 5, 2, 128) for name in ("q", "k", "v")}
    gates = {name: torch.zeros(2, 5, 2) for name in ("g", "beta")}
    with pytest.raises(ValueError, match=r"^q: batch size 2, expected 1 with cu_seqlens$"):
        call(**tokens, **gates)


@pytest.mark.parametrize(("bad", "shown"), [(0.9, "0.9"), (float("nan"), "nan")])
def test_the_checked_mode_reports_gates_that_are_no_logarithms_of_decays(bad: float, shown: str) -> None:
    g = torch.zeros(1, 10, 4)
    g[0, 7, 2] = bad
    call(g=g)
    with pytest.raises(ValueError) as raised:
        call(g=g, checked=True)
    assert str(raised.value) == (
        f"g: {shown} at [0, 7, 2], expected natural logarithms of decays, at most 0; "
        "a decay alpha in (0, 1] itself is passed as alpha.log()"
    )


@pytest.mark.parametrize("dtype", [torch.float32, BF16, torch.float16])
def test_raw_gates_and_steps_may_be_anything(dtype: torch.dtype, launches: list[Any]) -> None:
    raw = torch.tensor([-9.0, 0.0, 9.0, float("nan")]).to(dtype).expand(1, 10, 4)
    flags = {"use_gate_in_kernel": True, "use_beta_sigmoid_in_kernel": True, "allow_neg_eigval": True}
    call(g=raw, beta=raw, A_log=torch.zeros(4), **flags, checked=True)
    ((arguments, _, _),) = launches
    assert arguments.A_log is not None and arguments.sigmoid_of_beta and arguments.allow_neg_eigval


@pytest.mark.parametrize("dtype", [BF16, torch.float16])
def test_rates_and_biases_of_fewer_bits_are_widened(dtype: torch.dtype, launches: list[Any]) -> None:
    A_log, dt_bias = torch.arange(4).to(dtype), torch.arange(1, 5).to(dtype)
    call(use_gate_in_kernel=True, A_log=A_log, dt_bias=dt_bias)
    ((arguments, _, _),) = launches
    assert (arguments.A_log.dtype, arguments.A_log.tolist()) == (torch.float32, [0, 1, 2, 3])
    assert (arguments.dt_bias.dtype, arguments.dt_bias.tolist()) == (torch.float32, [1, 2, 3, 4])


def test_the_checked_mode_does_not_look_at_slack_tokens(launches: list[Any]) -> None:
    g = torch.full((1, 10, 4), float("-inf"))
    g[0, 9] = 1
    call(g=g, checked=True)
    call(g=None, checked=True)
    assert len(launches) == 2


def test_what_repeats_the_offsets_is_accepted(launches: list[Any]) -> None:
    cu_seqlens = offsets(0, 0, 65, 70, dtype=INT32)
    tokens = {name: zeros(1, 70, 2, 64) for name in ("q", "k", "v")}
    gates = {name: torch.zeros(1, 70, 2) for name in ("g", "beta")}
    indices = torch.tensor([[1, 0], [1, 1], [2, 0]], dtype=INT32)
    call(**tokens, **gates, cu_seqlens=cu_seqlens, cu_seqlens_cpu=cu_seqlens.long(), chunk_indices=indices)
    call(cu_seqlens=None, chunk_size=64)
    assert [lengths for _, lengths, _ in launches] == [(0, 65, 5), (10,)]


def test_tensors_that_require_grad_pass_where_nothing_is_differentiated(launches: list[Any]) -> None:
    with torch.no_grad():
        call(beta=torch.zeros(1, 10, 4, requires_grad=True))
    assert len(launches) == 1


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'head_first'"):
        call(head_first=True)


FLAGS = [
    "output_final_state",
    "use_qk_l2norm_in_kernel",
    "use_beta_sigmoid_in_kernel",
    "allow_neg_eigval",
    "state_v_first",
    "use_gate_in_kernel",
    "checked",
]


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize(
    ("value", "shown"), [("False", "'False'"), (1, "1"), (None, "None"), (torch.tensor(True), "a Tensor")]
)
def test_a_flag_is_true_or_false(name: str, value: object, shown: str, launches: list[Any]) -> None:
    with pytest.raises(TypeError) as caught:
        call(**{name: value})
    assert str(caught.value) == f"{name}: {shown}, expected True or False"
    assert not launches
