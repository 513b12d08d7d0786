"""How results are compared: by their distance from exact values, and bit by bit."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def relative_l2(x: Tensor, exact: Tensor, size: float | None = None) -> float:
    """||x - exact|| / ||exact|| in float64, or over ``size`` where that is given; over 1 where it is 0; inf where ``x``
    is not finite. Both of one shape, on one device, which is waited for."""
    exact = exact.double()
    error = float((x.double() - exact).norm())
    if not math.isfinite(error):
        return math.inf
    return error / ((float(exact.norm()) if size is None else size) or 1.0)


def words(x: Tensor) -> Tensor:
    """The bits of ``x`` as integers, of its shape, strides and memory."""
    return x.view(_WORDS[x.element_size()])


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal bit for bit, NaN payloads and signs of zeros included; both of one dtype. Waits for their device."""
    return torch.equal(words(a), words(b))
