"""Kind 2, g = 0 everywhere: elsewhere decaying gates hid what is unstable."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from loomgen.cli.project import Project
from loomgen.verify import OpCase
from loomgen.verify.interpreted import InterpretedLibrary
from loomgen.verify.op import FROM_ROUNDING, exact_results, rounding_errors
from tests.failures.emulated import emulated, make_call
from tests.verify.committed import ROOT

UNFADING = OpCase(name="g = 0", lengths=(192,), heads=(1, 1), gates="zero")


@pytest.fixture(scope="module")
def rounded() -> InterpretedLibrary:
    return InterpretedLibrary.of(Project(ROOT).kernels(), "rounded")


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("negative", [False, True])
def test_errors_are_those_of_the_written_roundings(
    normalise: bool, negative: bool, rounded: InterpretedLibrary
) -> None:
    """Steps up to 2 not only keep an early error for ever, they turn it round."""
    steps = torch.float32 if negative else None
    case = replace(UNFADING, normalise=normalise, negative=negative, raw_steps=steps)
    call = make_call(case, 0)
    exact = exact_results(case, call.inputs, call.given)
    explained = rounding_errors(rounded, case, call.inputs, call.given)
    assert explained.keys() == {"o", "final_state", "dq", "dk", "dv", "dg", "dbeta", "dh0"}
    for name, x in emulated(call).items():
        assert exact.error(name, x) <= FROM_ROUNDING * explained[name] < 2e-2, name


def test_what_an_early_token_wrote_is_still_there_at_the_end() -> None:
    """The case would show an instability: the first value reaches the last output, and its gradient comes back."""
    call = make_call(UNFADING, 0)
    found = emulated(call)
    call.inputs.v[:, 0] *= 2
    changed = emulated(call)
    assert (changed["o"] - found["o"])[:, -1].abs().max() > 1e-4
    assert found["dv"][:, 0].abs().max() > 1e-3
