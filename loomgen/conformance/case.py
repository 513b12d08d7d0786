"""What a conformance case is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loomgen.conformance.compare import Array, Comparison

KERNELS = Path(__file__).parent / "kernels"
INCLUDE = Path(__file__).parents[1] / "include"

_UNWRITTEN = 0xA5
"""The bytes of an output before the launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """An array goes to the kernel as a tensor map, by boxes of ``rows`` x ``cols`` of its elements."""

    rows: int
    cols: int
    swizzle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One launch of one kernel.

    ``primitives`` are what the case is about: names of the headers' functions, with parameter types where a name has
    several meanings. The kernel ``kernel`` of ``kernels/<source>.cu`` takes pointers to the arrays that ``inputs``
    makes, a pointer to its output and the 32-bit integers ``scalars``; it writes every element of the output. An array
    of two dimensions with a box in ``boxes``, which are in the order of the arrays, goes as a tensor map instead.
    """

    name: str
    primitives: tuple[str, ...]
    source: str
    kernel: str
    inputs: Callable[[], tuple[Array, ...]] = field(repr=False)
    output_dtype: npt.DTypeLike
    output_shape: tuple[int, ...]
    scalars: tuple[int, ...] = ()
    boxes: tuple[Box | None, ...] = ()
    grid: int = 1
    block: int
    shared_bytes: int = 0
    comparison: Comparison

    @property
    def source_path(self) -> Path:
        return KERNELS / f"{self.source}.cu"

    def box(self, position: int) -> Box | None:
        """That of an input, or of the output as the last one."""
        return self.boxes[position] if position < len(self.boxes) else None

    def empty_output(self) -> Array:
        """An array for the results, filled with a pattern that no kernel writes throughout."""
        output = np.empty(self.output_shape, self.output_dtype)
        output.view(np.uint8)[...] = _UNWRITTEN
        return output
