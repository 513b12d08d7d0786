"""Kind 6, decays where their logarithms are expected: elsewhere everything became NaN."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from loomgen.ops import chunk_gated_delta_rule
from loomgen.verify import OpCase
from tests.ops.call import arguments

CASE = OpCase(name="linear", lengths=(3, 70), head_dim=64)
HINT = r"g: 0\.\d+ at \[0, 0, 0\], expected natural logarithms of decays, at most 0; .* passed as alpha\.log\(\)"


def with_decays(**changes: Any) -> dict[str, Any]:
    given = arguments(CASE)
    return {**given, "g": given["g"].exp(), **changes}


@pytest.mark.parametrize("trains", [False, True])
def test_the_checked_mode_names_the_gate_and_says_what_to_pass(trains: bool) -> None:
    given = with_decays(checked=True)
    given["q"] = given["q"].detach().requires_grad_(trains)
    with pytest.raises(ValueError, match=HINT):
        chunk_gated_delta_rule(**given)


def test_what_the_hint_says_is_right() -> None:
    given = with_decays()
    o, _ = chunk_gated_delta_rule(**{**given, "g": given["g"].log(), "checked": True})
    expected, _ = chunk_gated_delta_rule(**arguments(CASE))
    assert torch.allclose(o.float(), expected.float(), rtol=2e-2, atol=1e-3)


def test_raw_gates_of_any_sign_are_right() -> None:
    case = OpCase(name="raw", lengths=(9,), head_dim=64, raw_gates=torch.float32)
    given = arguments(case)
    given["g"] = given["g"].abs()
    o, _ = chunk_gated_delta_rule(**given, checked=True)
    assert o.isfinite().all()
