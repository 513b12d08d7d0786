"""The order of every sum: what makes a kernel's result a function of its inputs alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractOrder:
    """How a contraction is summed; the interpreter's ``ordered`` mode replays it bit for bit.

    The contracted extent is cut into ``parts`` equal contiguous parts. Each part starts from the seed (part 0,
    if there is a seed) or from 0 and consumes its blocks of ``block`` elements in ascending order. One block is
    one MMA: the exact float64 products of the operands are added in float64, in the order ``slots`` (offsets
    inside the block), starting from 0; that sum is added to the accumulator in float64 and rounded once to
    float32. Parts are added in fp32, low to high.
    """

    block: int
    slots: tuple[int, ...]
    parts: int


M16N8K16 = ContractOrder(block=16, slots=tuple(range(16)), parts=1)
"""bf16 and fp16 operands: ascending."""

M16N8K8 = ContractOrder(block=8, slots=(0, 2, 4, 6, 1, 3, 5, 7), parts=1)
"""tf32 operands; a C fragment holds column pairs, so slot t takes element 2t and slot t+4 element 2t+1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceOrder:
    """How a reduction is carried out. ``partials``: for each thread of a row, the elements that it adds, in order.

    Each partial result starts from the identity (-0.0 for a sum, so that it changes nothing; -inf for a maximum).
    Neighbouring partial results are then combined in pairs, (0, 1), (2, 3), ..., until one is left. A reduction over
    several indices numbers its elements row-major. A split index has ``parts``, each with equally many of the partial
    results and combined by itself; the parts' results are combined low to high.
    """

    partials: tuple[tuple[int, ...], ...]
    parts: int = 1


Order = ContractOrder | ReduceOrder
