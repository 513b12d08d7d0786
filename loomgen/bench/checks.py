"""Whether results are right, and whether they are the same bits each time."""

from __future__ import annotations

import torch
from torch import Tensor

from loomgen.bench.steps import Results, Step

POLLUTED_BYTES = 2**29

_DIGEST_BLOCK = 2**24
_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_PLACE, _FIRST, _SECOND = 0x1E3779B97F4A7C15, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
"""Odd multipliers: of a word's place, and of the mixing, those of splitmix64."""


def relative_l2(x: Tensor, reference: Tensor) -> float:
    """``|x - reference| / |reference|``; NaN where ``x`` is not finite."""
    return float((x.double() - reference).norm() / reference.norm())


def errors_of(results: Results, reference: Results) -> dict[str, float]:
    """Relative L2 errors of all ``results``; the ``reference`` has the tokens of a batch one after the other."""
    return {name: relative_l2(x.reshape(reference[name].shape), reference[name]) for name, x in results.items()}


def repeats_equal(step: Step, first: Results, repeats: int, *, polluted_bytes: int = POLLUTED_BYTES) -> bool:
    """``repeats`` further calls give the bits of ``first``, with NaN in the memory that the allocator has free."""
    wanted = {name: _bits(x) for name, x in first.items()}
    device = first["o"].device
    for _ in range(repeats):
        _pollute(polluted_bytes, device)
        found = step()
        if not all(torch.equal(_bits(found[name]), bits) for name, bits in wanted.items()):
            return False
    return True


def digest(x: Tensor) -> str:
    """64 bits that depend on every bit of ``x`` and its place, computed on its device: by them two runs are compared.
    Sums of integers wrap, so their order does not matter."""
    words = x.contiguous().view(_WORDS[x.element_size()]).flatten()
    total = torch.zeros((), dtype=torch.int64, device=x.device)
    for start in range(0, len(words), _DIGEST_BLOCK):
        block = words[start : start + _DIGEST_BLOCK].to(torch.int64)
        block += _PLACE * torch.arange(start, start + len(block), device=x.device)
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            block = (block ^ (block >> shift)) * factor
        total += (block ^ (block >> 31)).sum()
    return f"{int(total) % 2**64:016x}"


def _bits(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.uint8)


def _pollute(n_bytes: int, device: torch.device) -> None:
    """Fills memory with NaN and frees it, so that the next call finds it in what it allocates."""
    torch.full((n_bytes // 4,), float("nan"), device=device)
