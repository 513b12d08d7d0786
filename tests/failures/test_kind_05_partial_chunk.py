"""Kind 5, a short last chunk: elsewhere a gate past its end was read as 0, and 0 * inf made NaN."""

from __future__ import annotations

import pytest

from loomgen.verify import OpCase
from loomgen.verify.determinism import alone, part_of
from loomgen.verify.problem import LOWEST_GATE
from tests.failures.emulated import Call, differing, emulated, make_call, on_emulated_card

SHORT = OpCase(name="short chunks", lengths=(1, 65, 63), head_dim=64, slack=5)


def strong_at_the_ends(call: Call) -> Call:
    """The last tokens decay so strongly that what is past them, read as 0, would be exponentiated to infinity."""
    assert call.inputs.g is not None
    end = 0
    for length in call.case.lengths:
        end += length
        call.inputs.g[:, end - min(length, 4) : end] = LOWEST_GATE / 2
    return call


def test_results_and_gradients_are_finite_and_those_of_each_sequence_alone() -> None:
    call = strong_at_the_ends(make_call(SHORT, 0))
    packed = emulated(call)
    assert all(x.isfinite().all() for x in packed.values())
    for n in range(len(SHORT.lengths)):
        assert differing(part_of(packed, SHORT, n), emulated(alone(call, n))) == set(), n


@pytest.mark.parametrize("n", [0, 1, 2])
def test_neighbours_that_are_not_numbers_change_no_bit(n: int) -> None:
    call = strong_at_the_ends(make_call(SHORT, 0))
    expected = part_of(emulated(call), SHORT, n)
    begin = sum(SHORT.lengths[:n])
    end = begin + SHORT.lengths[n]
    inputs, given = call.inputs, call.given
    assert inputs.g is not None
    for x in (inputs.q, inputs.k, inputs.v, inputs.g, inputs.beta, given.do):
        x[:, :begin], x[:, end:] = float("nan"), float("nan")
    assert differing(part_of(emulated(call), SHORT, n), expected) == set()


@pytest.mark.parametrize("on_device", [False, True])
def test_a_gpu_is_told_where_sequences_end(on_device: bool) -> None:
    call = strong_at_the_ends(make_call(SHORT, 0))
    assert differing(on_emulated_card(call, on_device=on_device), emulated(call)) == set()
