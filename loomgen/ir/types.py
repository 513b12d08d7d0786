"""Element types, index letters and tile types, shared by the three IRs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class DType(Enum):
    """An element type; the value is its name in specs, registries and primitives."""

    F32 = "f32"
    TF32 = "tf32"
    BF16 = "bf16"
    F16 = "f16"
    I32 = "i32"
    I64 = "i64"
    BOOL = "bool"

    @property
    def n_bytes(self) -> int:
        return _N_BYTES[self]

    @property
    def is_float(self) -> bool:
        return self in (DType.F32, DType.TF32, DType.BF16, DType.F16)

    @property
    def is_half(self) -> bool:
        """A 16-bit floating type: an operand of m16n8k16."""
        return self in (DType.BF16, DType.F16)


_N_BYTES = {
    DType.F32: 4,
    DType.TF32: 4,
    DType.BF16: 2,
    DType.F16: 2,
    DType.I32: 4,
    DType.I64: 8,
    DType.BOOL: 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index letter of a stage: ``i: C`` with C = 64 is ``Index(name="i", symbol="C", extent=64)``."""

    name: str
    symbol: str
    extent: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """An SSA tile value. ``indices`` are its axes in the order of the left-hand side; none means a scalar.

    ``name`` is unique in a program: the spec's name, with ``_2``, ``_3`` ... for later versions of a
    carried name, and ``<statement>_mm``-like names for what a pass introduces.
    """

    name: str
    dtype: DType
    indices: tuple[Index, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(index.extent for index in self.indices)

    def __str__(self) -> str:
        axes = ",".join(index.name for index in self.indices)
        return f"{self.name}[{axes}]:{self.dtype.value}" if axes else f"{self.name}:{self.dtype.value}"
