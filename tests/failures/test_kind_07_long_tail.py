"""Kind 7, one long sequence among short and empty ones, with initial states: elsewhere blocks waited for ever."""

from __future__ import annotations

import pytest

from loomgen.verify import OpCase
from tests.failures.emulated import differing, emulated, errors, make_call, on_emulated_card

TAIL = OpCase(name="long tail", lengths=(1, 4000, 3, 64, 65, 0, 127), heads=(1, 1), head_dim=64)
"""The emulator reports a block that waits for what never comes."""


def test_results_and_gradients_are_those_of_the_recurrence() -> None:
    found = errors(TAIL)
    assert found.keys() >= {"final_state", "dh0"} and all(error <= 1 for error in found.values()), found


@pytest.mark.parametrize("on_device", [False, True])
def test_the_grids_that_a_gpu_gets_cover_every_chunk_and_no_other(on_device: bool) -> None:
    case = OpCase(name="shorter tail", lengths=(1, 400, 3, 64, 65, 0, 127), heads=(1, 1), head_dim=64)
    call = make_call(case, 0)
    assert differing(on_emulated_card(call, on_device=on_device), emulated(call)) == set()
