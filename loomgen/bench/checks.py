"""Whether results are right, and whether they are the same bits each time."""

from __future__ import annotations

import torch
from torch import Tensor

from loomgen.bench.implementations import Call, Implementation, Result

POLLUTED_BYTES = 2**29


def relative_l2(x: Tensor, reference: Tensor) -> float:
    """``|x - reference| / |reference|``; NaN where ``x`` is not finite."""
    return float((x.double() - reference).norm() / reference.norm())


def errors_of(implementation: Implementation, result: Result, reference: tuple[Tensor, Tensor]) -> dict[str, float]:
    """Relative L2 errors of ``o`` and, where there is one, of the final state."""
    o, state = result
    errors = {"o": relative_l2(o.flatten(0, 1), reference[0])}
    if state is not None:
        errors["state"] = relative_l2(implementation.keys_first(state), reference[1])
    return errors


def repeats_equal(call: Call, first: Result, repeats: int, *, polluted_bytes: int = POLLUTED_BYTES) -> bool:
    """``repeats`` further calls give the bits of ``first``, with NaN in the memory that the allocator has free."""
    wanted = [_bits(x) for x in first if x is not None]
    for _ in range(repeats):
        _pollute(polluted_bytes, first[0].device)
        found = [_bits(x) for x in call() if x is not None]
        if not all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True)):
            return False
    return True


def _bits(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.uint8)


def _pollute(n_bytes: int, device: torch.device) -> None:
    """Fills memory with NaN and frees it, so that the next call finds it in what it allocates."""
    torch.full((n_bytes // 4,), float("nan"), device=device)
