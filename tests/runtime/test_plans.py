"""The plan cache: by value, bounded, and faithful to captured graphs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from loomgen.runtime.plans import PlanCache


@dataclass
class Plan:
    number: int
    captured: bool = False


class Builder:
    """Numbers the plans that it makes."""

    def __init__(self) -> None:
        self.n_built = 0

    def __call__(self) -> Plan:
        self.n_built += 1
        return Plan(self.n_built)


def test_equal_lengths_in_new_tensors_are_one_plan() -> None:
    cache, build = PlanCache[Plan](8), Builder()
    first = cache.get(torch.tensor([0, 5, 8]), "shape", build)
    assert cache.get(torch.tensor([0, 5, 8]), "shape", build) is first
    assert cache.get(torch.tensor([0, 9, 5, 9, 8, 9])[::2], "shape", build) is first
    assert cache.get([0, 5, 8], "shape", build) is cache.get((0, 5, 8), "shape", build)
    assert build.n_built == 2


def test_other_lengths_at_the_same_address_are_another_plan() -> None:
    cache, build = PlanCache[Plan](8), Builder()
    lengths = torch.tensor([0, 5, 8])
    first = cache.get(lengths, "shape", build)
    address = lengths.data_ptr()
    lengths[1] = 6
    assert lengths.data_ptr() == address
    assert cache.get(lengths, "shape", build) is not first
    lengths[1] = 5
    assert cache.get(lengths, "shape", build) is first


def test_lists_are_taken_by_value_too() -> None:
    cache, build = PlanCache[Plan](8), Builder()
    lengths = [5, 3]
    first = cache.get(lengths, "shape", build)
    lengths[0] = 4
    assert cache.get(lengths, "shape", build) is not first


def test_another_shape_or_dtype_is_another_plan() -> None:
    cache, build = PlanCache[Plan](8), Builder()
    plans = [
        cache.get(torch.tensor([0, 1], dtype=torch.int64), "a", build),
        cache.get(torch.tensor([0, 1], dtype=torch.int64), "b", build),
        cache.get(torch.tensor([0, 0, 1, 0], dtype=torch.int32), "a", build),  # the same bytes as 0, 1 would be
    ]
    assert [plan.number for plan in plans] == [1, 2, 3]


def test_the_plan_used_longest_ago_goes_first() -> None:
    cache, build = PlanCache[Plan](2), Builder()
    cache.get([1], None, build)
    cache.get([2], None, build)
    cache.get([1], None, build)
    cache.get([3], None, build)
    assert len(cache) == 2
    assert [cache.get([n], None, build).number for n in (1, 3, 2)] == [1, 3, 4]


def test_a_captured_plan_stays_and_does_not_crowd_out_others() -> None:
    cache, build = PlanCache[Plan](1), Builder()
    cache.get([1], None, build).captured = True
    for n in (2, 3, 4):
        cache.get([n], None, build)
    assert len(cache) == 2
    assert cache.get([1], None, build).number == 1
    assert cache.get([4], None, build).number == 4


def test_a_build_that_fails_leaves_no_plan() -> None:
    cache, build = PlanCache[Plan](1), Builder()

    def fail() -> Plan:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get([1], None, fail)
    assert len(cache) == 0
    assert cache.get([1], None, build).number == 1


def test_lengths_that_only_the_device_knows_are_refused() -> None:
    with pytest.raises(ValueError, match="lengths: on meta, expected numbers that the host knows"):
        PlanCache[Plan](1).get(torch.empty(2, device="meta"), None, Builder())
