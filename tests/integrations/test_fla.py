"""loomgen as a backend of FLA's dispatch, of which there is a stand-in here: FLA itself wants a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from loomgen.integrations import fla
from loomgen.integrations.fla import FlaCall, why_not
from loomgen.integrations.optional import MissingPackage
from loomgen.ops import chunk_gated_delta_rule
from loomgen.verify import OpCase, same_bits
from tests.integrations.fake_fla import Registry, current, older
from tests.ops.call import arguments, run

SMALL = OpCase(name="small", lengths=(3, 5), heads=(1, 2), head_dim=64)
FLA_S_OWN = (torch.zeros(1), None)

Operator = Callable[..., Any]


def install(monkeypatch: pytest.MonkeyPatch, modules: dict[str, ModuleType]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "fla"]:
        monkeypatch.delitem(sys.modules, name)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """That of 0.6, with loomgen registered."""
    found = Registry()
    install(monkeypatch, current(found))
    fla.register()
    return found


@pytest.fixture
def operator(registry: Registry) -> Operator:
    def chunk_gated_delta_rule(*_: Any, **__: Any) -> tuple[Tensor, None]:
        return FLA_S_OWN

    return registry.dispatched(chunk_gated_delta_rule)


def test_a_call_runs_on_loomgen_with_the_bits_of_loomgen(operator: Operator, registry: Registry) -> None:
    given = arguments(SMALL)
    o, state = operator(**given)
    wanted, wanted_state = run(given)
    assert same_bits(o, wanted) and same_bits(state, wanted_state)
    assert registry.refusals == []


def test_arguments_may_come_by_place(operator: Operator) -> None:
    given = arguments(SMALL)
    first = [given.pop(name) for name in ("q", "k", "v", "g", "beta")]
    o, _ = operator(*first, None, **given)
    assert same_bits(o, chunk_gated_delta_rule(*first, **given)[0])


def test_what_fla_takes_in_narrow_dtypes_is_widened(operator: Operator) -> None:
    given = arguments(SMALL)
    narrow = {**given, "g": given["g"].bfloat16(), "beta": given["beta"].half(),
              "initial_state": given["initial_state"].bfloat16()}  # fmt: skip
    wide = {name: x.float() if name in ("g", "beta", "initial_state") else x for name, x in narrow.items()}
    o, state = operator(**narrow)
    wanted, wanted_state = run(wide)
    assert same_bits(o, wanted) and same_bits(state, wanted_state)


def test_none_is_no_flag_as_layers_of_fla_pass_it(operator: Operator) -> None:
    given = {**arguments(SMALL), "output_final_state": None}
    assert operator(**given)[1] is None


def test_gradients_go_through_loomgen(operator: Operator) -> None:
    given = arguments(SMALL)
    q = given["q"].requires_grad_()
    operator(**given)[0].float().sum().backward()
    (wanted,) = torch.autograd.grad(run(given)[0].float().sum(), q)
    assert q.grad is not None and same_bits(q.grad, wanted) and wanted.any()


def test_the_variable_turns_it_off_and_on_again(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments(SMALL)
    monkeypatch.setenv("FLA_LOOMGEN", "0")
    assert operator(**given) is FLA_S_OWN
    monkeypatch.setenv("FLA_LOOMGEN", "1")
    assert operator(**given) is not FLA_S_OWN


def test_registering_twice_is_registering_once(registry: Registry) -> None:
    fla.register()
    assert list(registry.backends) == ["loomgen"]


def test_the_dispatch_of_0_5_2_does_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    install(monkeypatch, older({"gated_delta_rule": registry}))
    fla.register()
    assert list(registry.backends) == ["loomgen"]


def test_a_dispatch_from_before_gated_delta_rules_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, older({}))
    with pytest.raises(MissingPackage, match=r"0\.5\.2 is the first"):
        fla.register()


def test_without_fla_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, {})
    monkeypatch.setitem(sys.modules, "fla", None)
    with pytest.raises(MissingPackage, match=r"pip install 'loomgen\[fla\]'"):
        fla.register()


def test_what_keeps_fla_from_being_imported_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, {})
    (tmp_path / "fla").mkdir()
    (tmp_path / "fla" / "__init__.py").touch()
    (tmp_path / "fla" / "backends.py").write_text("raise ImportError('triton needs libcuda.so.1')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingPackage, match=r"^fla\.backends: triton needs libcuda\.so\.1; "):
        fla.register()
    del sys.modules["fla"]


def call(**changes: Any) -> FlaCall:
    x = torch.empty(1, 4, 2, 128, dtype=torch.bfloat16)
    gates = torch.empty(1, 4, 2)
    return FlaCall(**{"q": x, "k": x, "v": x, "g": gates, "beta": gates, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"g": torch.empty(1, 4, 2).bfloat16(), "use_gate_in_kernel": True, "A_log": torch.empty(2)},
        {"use_beta_sigmoid_in_kernel": True, "allow_neg_eigval": True, "state_v_first": True},
        {"initial_state": torch.empty(1, 2, 128, 128).half(), "cu_seqlens": torch.tensor([0, 4])},
    ],
    ids=lambda changes: ", ".join(changes) or "plain",
)
def test_what_loomgen_supports_is_taken(changes: dict[str, Any]) -> None:
    assert why_not(call(**changes)) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cp_context": object()}, "cp_context: context parallelism is not supported"),
        ({"chunk_size": 32}, "chunk_size: 32, supported is 64"),
        ({"A_log": torch.empty(2)}, "A_log and dt_bias are not ignored without use_gate_in_kernel"),
        (
            {"q": torch.empty(1, 4, 2, 128)},
            "q, k, v: torch.float32, torch.bfloat16, torch.bfloat16, supported is one of torch.bfloat16, torch.float16",
        ),
        (
            {"v": torch.empty(1, 4, 2, 256).bfloat16()},
            "head dims: 128 and 256, supported is one of 64, 128 for both",
        ),
        (
            {"beta": torch.empty(1, 4, 2).double()},
            "beta: torch.float64, supported is one of torch.float32, torch.bfloat16, torch.float16",
        ),
        (
            {"q": torch.empty(1, 4, 2, 128, dtype=torch.bfloat16, device="meta")},
            "q: on meta, supported are NVIDIA's GPUs",
        ),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_what_loomgen_does_not_support_is_left_to_fla(changes: dict[str, Any], reason: str) -> None:
    assert why_not(call(**changes)) == reason


def test_a_call_that_is_left_runs_on_fla_s_own_path(operator: Operator, registry: Registry) -> None:
    given = {**arguments(SMALL), "chunk_size": 32}
    assert operator(**given) is FLA_S_OWN
    assert registry.refusals == ["chunk_size: 32, supported is 64"]


def test_an_argument_of_old_versions_is_left_to_fla(operator: Operator, registry: Registry) -> None:
    assert operator(**arguments(SMALL), transpose_state_layout=True) is FLA_S_OWN
    assert "transpose_state_layout" in str(registry.refusals)
