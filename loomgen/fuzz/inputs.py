"""Tensors and scalars for a generated stage: any shape, dtype and strides that its declaration allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from loomgen.fuzz.case import Case
from loomgen.ir.kernel import ArgumentKind
from loomgen.ir.tile import Access
from loomgen.ir.tile import Tensor as Declared
from loomgen.ir.types import DType
from loomgen.passes.pipeline import LoweredKernel
from loomgen.runtime.dtypes import TORCH_DTYPES
from loomgen.runtime.tables import window_tables

Inputs = dict[str, Tensor | int | float | bool | None]

_SPARE_SLOTS = 2
_ALIGNED_ELEMENTS = 8
"""Rows begin at multiples of 16 bytes of 16-bit elements, as vector accesses need them."""
_CHUNK_DIM, _DEFAULT_CHUNK = "C", 64
_OFTEN_GIVEN = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """``given``: everything by name. ``outputs``: the names of the tensors that the kernel writes."""

    given: Inputs
    outputs: tuple[str, ...]

    def copy(self) -> Inputs:
        """The same with outputs of its own, in the same memory layout."""
        return {name: _copied(value) if name in self.outputs else value for name, value in self.given.items()}


def _copied(value: Tensor | int | float | bool | None) -> Tensor | int | float | bool | None:
    if not isinstance(value, Tensor):
        return value
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return copy.copy_(value)


def make_problem(case: Case, lowered: LoweredKernel) -> Problem:
    """Normal numbers in all floating tensors, outputs full of NaN; the case's seed decides."""
    generator = torch.Generator().manual_seed(case.seed)
    tables = window_tables(case.lengths, dict(lowered.program.dims).get(_CHUNK_DIM, _DEFAULT_CHUNK))
    n_sequences = len(case.lengths)
    dims = {
        "T": sum(case.lengths),
        "N": n_sequences,
        "NC": tables.chunk_start.numel(),
        "H": case.heads[0],
        "HV": case.heads[1],
        "SLOTS": n_sequences + _SPARE_SLOTS,
    }
    declared = {tensor.name: tensor for tensor in lowered.program.tensors}
    strided = {argument.source[0] for argument in lowered.arguments if argument.source is not None}
    given: Inputs = {**tables.by_name(), **dims}
    for argument in lowered.arguments:
        if argument.kind is ArgumentKind.TENSOR:
            has_strides = argument.name in strided
            given[argument.name] = _tensor(declared[argument.name], dims, generator, has_strides=has_strides)
    for scalar in lowered.program.scalars:
        given[scalar.name] = _scalar(scalar.dtype, generator)
    outputs = tuple(name for name, tensor in declared.items() if tensor.access is not Access.IN)
    return Problem(given=given, outputs=outputs)


def _scalar(dtype: DType, generator: torch.Generator) -> float | bool:
    value = float(torch.randn((), generator=generator))
    return value > 0 if dtype is DType.BOOL else value


def _shape(tensor: Declared, dims: dict[str, int]) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else dims[size] for size in tensor.shape)


def _tensor(tensor: Declared, dims: dict[str, int], generator: torch.Generator, *, has_strides: bool) -> Tensor | None:
    """``has_strides``: the kernel is told them; one that never looks at a tensor is not."""
    if tensor.optional and float(torch.rand((), generator=generator)) > _OFTEN_GIVEN:
        return None
    shape = _shape(tensor, dims)
    memory = _memory(tensor, shape) if has_strides else torch.zeros(shape, dtype=TORCH_DTYPES[tensor.dtype.value])
    if tensor.dtype is DType.I32:
        return memory.copy_(_slots(shape, dims, generator)) if tensor.access is Access.IN else memory.fill_(-1)
    if tensor.access is Access.OUT:
        return memory.fill_(float("nan"))
    return memory.copy_(torch.randn(shape, generator=generator))


def _slots(shape: tuple[int, ...], dims: dict[str, int], generator: torch.Generator) -> Tensor:
    """Slots; all different where there are no more elements than sequences, so that they suit a distinct tensor."""
    n_elements = math.prod(shape)
    if n_elements <= dims["SLOTS"]:
        return torch.randperm(dims["SLOTS"], generator=generator)[:n_elements].reshape(shape)
    return torch.randint(dims["SLOTS"], shape, generator=generator)


def _memory(tensor: Declared, shape: tuple[int, ...]) -> Tensor:
    """Memory as the tensor's strides allow: with gaps between rows, or with its dimensions in another order."""
    dtype = TORCH_DTYPES[tensor.dtype.value]
    match tensor.strides:
        case "rows":
            gap = torch.zeros(*shape[:-1], shape[-1] + _ALIGNED_ELEMENTS, dtype=dtype)
            return gap[..., : shape[-1]]
        case "free":
            reversed_ = torch.zeros(*shape[::-1], dtype=dtype)
            return reversed_.permute(*range(len(shape) - 1, -1, -1))
        case _:
            return torch.zeros(shape, dtype=dtype)
