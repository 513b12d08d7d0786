"""A number of all the bits of a tensor, made where the tensor lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from loomgen.verify.compare import words

_ODD = 0x9E3779B97F4A7C15 - 2**64
_BLOCK = 2**24
"""Elements at a time: their words and weights take 16 bytes each."""


def fingerprint(x: Tensor) -> Tensor:
    """The sum of the elements' bits, as integers, by odd weights that differ from place to place, modulo 2^64: i64, on
    the device of ``x``.

    Integer sums have no order. One element of at most 4 bytes that changes, and two different ones that change places,
    always change it: in the product of what differs and the weight, or the weights' difference, too few factors are 2.
    """
    bits = words(x.detach().contiguous()).flatten()
    total = torch.zeros((), dtype=torch.int64, device=x.device)
    for start in range(0, bits.numel(), _BLOCK):
        block = bits[start : start + _BLOCK].to(torch.int64)
        places = torch.arange(start, start + block.numel(), device=x.device)
        total = total + (block * ((2 * places + 1) * _ODD)).sum()
    return total


def fingerprints(tensors: Iterable[Tensor]) -> Tensor:
    """One number a tensor, i64 [n]."""
    return torch.stack([fingerprint(x) for x in tensors])


def digest(prints: Tensor) -> str:
    """One number of all of ``prints``, in hexadecimal; waits for the GPU."""
    return _hexadecimal(int(fingerprint(prints)))


def digests(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The number of each in hexadecimal, by name; waits for the GPU, once."""
    prints = fingerprints(tensors.values()).tolist()
    return {name: _hexadecimal(number) for name, number in zip(tensors, prints, strict=True)}


def _hexadecimal(number: int) -> str:
    return f"{number % 2**64:016x}"
