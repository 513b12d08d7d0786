"""The comparisons catch what is outside of their bounds, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from loomgen.conformance.compare import Bitwise, Envelope, Ulps, compare, ulp_distances
from loomgen.conformance.inputs import distinct


def floats(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def bits(*values: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.uint32).view(np.float32)


def test_a_permuted_lane_is_caught() -> None:
    host = distinct(128, np.uint32).reshape(32, 4)
    device = host.copy()
    device[[5, 6]] = host[[6, 5]]
    outcome = compare(Bitwise(), (), host, device)
    assert (outcome.elements, outcome.differing, outcome.outside) == (128, 8, 8)
    assert outcome.first_outside is not None
    assert outcome.first_outside.startswith("[20] host 0x")
    assert outcome.max_ulp is None


def test_equal_results_are_equal() -> None:
    outcome = compare(Bitwise(), (), floats(1, np.inf), floats(1, np.inf))
    assert (outcome.differing, outcome.outside, outcome.first_outside, outcome.max_ulp) == (0, 0, None, 0)


def test_nans_are_one_as_floats_and_many_as_bits() -> None:
    host, device = bits(0x7FC00000, 0x7F800001), bits(0x7FFFFFFF, 0xFFC00000)
    assert compare(Bitwise(), (), host, device).differing == 0
    assert compare(Bitwise(), (), host.view(np.uint32), device.view(np.uint32)).differing == 2


def test_zeros_of_both_signs_differ_bitwise() -> None:
    assert compare(Bitwise(), (), floats(0.0), floats(-0.0)).outside == 1


def test_ulp_distances_count_floats_across_zero_and_to_infinity() -> None:
    host = bits(0x3F800000, 0x00000001, 0x7F7FFFFF, 0x00000000, 0x7FC00000, 0x7FC00000)
    device = bits(0x3F800003, 0x80000002, 0x7F800000, 0x80000000, 0x7FFFFFFF, 0x3F800000)
    assert ulp_distances(host, device).tolist() == [3, 3, 1, 0, 0, 2**32]


@pytest.mark.parametrize(("steps", "outside"), [(2, 0), (3, 1)])
def test_ulps(steps: int, outside: int) -> None:
    outcome = compare(Ulps(2), (), bits(0x3F800000), bits(0x3F800000 + steps))
    assert (outcome.outside, outcome.max_ulp, outcome.share_of_bound) == (outside, steps, steps / 2)
    assert outcome.differing == 1


def test_nan_against_a_number_breaks_any_ulp_bound() -> None:
    assert compare(Ulps(1000), (), bits(0x7FC00000), floats(1.0)).outside == 1


def test_an_envelope_is_relative_to_its_scale() -> None:
    envelope = Envelope(relative=0.5, scale=lambda inputs, host: inputs[0], bound="half of it")
    scale = floats(2, 2, 2, 2, 0, 2)
    host = floats(10, 10, np.nan, np.inf, 7, np.inf)
    device = floats(11, 11.5, np.nan, np.inf, 7, 3)
    outcome = compare(envelope, (scale,), host, device)
    assert (outcome.outside, outcome.differing) == (2, 3)
    assert outcome.first_outside == "[1] host 0x41200000 (10.0), device 0x41380000 (11.5)"


def test_other_shapes_and_types_are_refused() -> None:
    with pytest.raises(ValueError, match="want the same"):
        compare(Bitwise(), (), floats(1), floats(1, 2))


def test_where_both_sides_flush_zero_is_next_to_the_smallest_normal_number() -> None:
    tiny = np.float32(2.0**-126)
    host = np.array([tiny, 0.0, 2 * tiny, np.inf], np.float32)
    device = np.array([0.0, np.nextafter(tiny, np.float32(1)), 2 * tiny, np.inf], np.float32)
    shares = Ulps(1, flushes=True).shares((), host, device)
    assert shares.tolist() == [1.0, 2.0, 0.0, 0.0]
    assert Ulps(1).shares((), host, device)[0] > 1e6
