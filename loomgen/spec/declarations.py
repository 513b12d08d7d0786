"""The names that the sections of a spec declare, for one expansion: what a program may refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loomgen.ir.tile import Expr, Function, GridAxis, ScalarArg, Tensor
from loomgen.ir.types import DType, Index
from loomgen.registry.tables import WINDOW_TABLES
from loomgen.spec.statics import Statics

FUNCTIONS: Mapping[str, Function] = {function.value: function for function in Function}
DTYPES: Mapping[str, DType] = {dtype.value: dtype for dtype in DType}
CASTS = frozenset({"f32", "tf32", "bf16", "f16", "i32", "i64"})
REDUCTIONS = frozenset({"sum", "max"})
SCANS = frozenset({"cumsum", "suffix_sum"})
INVERSE = "unit_lower_inverse"
CONSTANTS: Mapping[str, float] = {"log2e": 1.4426950408889634}
OWN_WORDS = frozenset(FUNCTIONS) | CASTS | REDUCTIONS | SCANS | frozenset(CONSTANTS)
OWN_WORDS |= {INVERSE, "given", "chunks", "reversed", "blocks", "range", "sequences", "segments", "bool"}
"""The language's own words: no section may declare them, no program assign them."""

BLOCK_LETTERS = ("a16", "b16")
"""The row and the column of a 16x16 block of a triangular inverse."""
CODE_WORDS = frozenset((*WINDOW_TABLES, *BLOCK_LETTERS))
"""What no argument, coordinate of the grid or loop may be called: kernels have something else of that name."""

RUNTIME_DIMS = ("T", "H", "HV", "N", "NC")
"""Run-time dims with the same meaning in every stage: tokens, key heads, value heads, sequences, chunks."""

CHUNK_DIM = "C"
"""The static dim that is the length of a chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarations:
    """Everything declared. ``symbols`` are a tensor's dimensions as written (``HV``, ``V``), beside the resolved
    shape; ``blocked`` is the dimension that a block window cuts; ``distinct`` names the index
    tensors, ``scatter`` the outputs whose ownership the emulator checks."""

    statics: Statics
    tensors: Mapping[str, Tensor]
    symbols: Mapping[str, tuple[int | str, ...]]
    distinct: frozenset[str]
    scatter: frozenset[str]
    scalars: Mapping[str, ScalarArg]
    indices: Mapping[str, Index]
    grid: Mapping[str, GridAxis]
    blocked: Mapping[str, str]
    runtime_dims: frozenset[str]
    where: Mapping[str, Expr]

    def cast_dtype(self, name: str) -> DType | None:
        """The dtype that ``name(x)`` converts to, or None when ``name`` is not a conversion."""
        return DTYPES[name] if name in CASTS else self.statics.dtypes.get(name)

    def declares(self, name: str) -> bool:
        """Whether a section other than the program gives ``name`` a meaning."""
        sections = (self.tensors, self.scalars, self.indices, self.grid, self.where, self.runtime_dims)
        static = (self.statics.numbers, self.statics.params, self.statics.dtypes, OWN_WORDS)
        return any(name in section for section in (*sections, *static))

    def known_names(self) -> tuple[str, ...]:
        """What an expression may name, for hints."""
        sections = (self.tensors, self.scalars, self.indices, self.grid, self.where, self.runtime_dims)
        return tuple(name for section in (*sections, self.statics.numbers, OWN_WORDS) for name in section)
