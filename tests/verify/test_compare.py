"""Distances and bits."""

from __future__ import annotations

import math

import pytest
import torch

from loomgen.verify import relative_l2, same_bits


def test_relative_error() -> None:
    assert relative_l2(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 3.0]).double()) == 1 / 18**0.5
    assert relative_l2(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 3.0]).double(), 4.0) == 0.25
    assert relative_l2(torch.tensor([0.5]), torch.tensor([0.0]).double()) == 0.5
    assert relative_l2(torch.zeros(0), torch.zeros(0).double()) == 0.0


def test_exact_values_of_few_bits_are_widened_before_their_norm() -> None:
    exact = torch.full((1000,), 1.0, dtype=torch.bfloat16)
    assert relative_l2(torch.full((1000,), 1.5), exact) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_error_of_what_is_not_finite_is_infinite(value: float) -> None:
    x = torch.tensor([1.0, value])
    assert relative_l2(x, torch.ones(2).double()) == relative_l2(x, x.double()) == math.inf


def test_bits_tell_zeros_and_nans_apart() -> None:
    assert same_bits(torch.tensor([float("nan"), 1.0]), torch.tensor([float("nan"), 1.0]))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([1.0], dtype=torch.bfloat16), torch.tensor([1.0078125], dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.bool, torch.float16, torch.float32, torch.float64])
def test_bits_of_any_dtype_are_compared_whatever_their_strides(dtype: torch.dtype) -> None:
    x = torch.tensor([[0, 1, 0], [1, 1, 0]]).to(dtype)
    assert same_bits(x, x.T.contiguous().T) and same_bits(x[0, 1], x[1, 1])
    assert not same_bits(x, 1 - x if dtype is not torch.bool else ~x) and not same_bits(x[0, 0], x[0, 1])
