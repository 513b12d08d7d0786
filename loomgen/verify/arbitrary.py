"""Random inputs of any kernel, made from its argument list alone; it is compared with what it means in float64."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from loomgen.ir.kernel import Argument, TensorBox
from loomgen.registry.model import ArgumentEntry, BoxEntry, StrideSource, dim_and_more
from loomgen.runtime.dtypes import TORCH_DTYPES
from loomgen.runtime.tables import window_tables
from loomgen.verify.problem import CHUNK, Inputs

BOUND = 1e-2
"""Relative L2 against float64 of a kernel of which nothing else is known: rounded operands, sums and results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a kernel, a tensor map being its tensor: ``kind`` tensor, table, dim, stride or scalar; ``access``
    of a pointer.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int | str, ...]
    access: str | None

    @classmethod
    def of(cls, argument: Argument | ArgumentEntry) -> Parameter:
        """Of the compiler's argument plan or of a registry, which say the same."""
        box: TensorBox | BoxEntry | StrideSource | None
        if isinstance(argument, Argument):
            kind, dtype, box = argument.kind.value, argument.dtype.value, argument.box
        else:
            kind, dtype, box = argument.kind, argument.dtype, argument.source
        if isinstance(box, TensorBox | BoxEntry):
            return cls(name=box.tensor, kind="tensor", dtype=dtype, shape=argument.shape, access=argument.access)
        return cls(name=argument.name, kind=kind, dtype=dtype, shape=argument.shape, access=argument.access)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``given`` is read; ``initial`` is what written tensors hold before: NaN where the kernel only writes."""

    given: Inputs
    initial: dict[str, Tensor]

    def fresh(self) -> dict[str, Tensor]:
        """The tensors to write, for one launch."""
        return {name: tensor.clone() for name, tensor in self.initial.items()}


def make_case(
    parameters: Iterable[Parameter], dims: Mapping[str, int], seqlens: Sequence[int], heads: tuple[int, int], seed: int
) -> Case:
    """Normal numbers of half their usual size; slots 1, 2, ... of pools, but 0 (none) for the first of several.

    ``dims`` are the kernel's static ones: a table's chunks are ``C`` long. A run-time dim of no known meaning is wide
    enough for the queries, keys and values of all heads.
    """
    gen = torch.Generator().manual_seed(seed)
    tables = window_tables(seqlens, dims.get("C", CHUNK)).by_name()
    sizes = _sizes(dims, seqlens, heads, len(tables["chunk_start"]))
    given: dict[str, Tensor | int | float | bool | None] = {**tables, "H": heads[0], "HV": heads[1]}
    initial: dict[str, Tensor] = {}
    for parameter in parameters:
        if parameter.kind == "scalar":
            given[parameter.name] = True if parameter.dtype == "bool" else 0.5
        if parameter.kind != "tensor":
            continue
        shape = [extent if isinstance(extent, int) else _size(extent, sizes) for extent in parameter.shape]
        values = _values(parameter.dtype, shape, gen)
        if parameter.access == "in":
            given[parameter.name] = values
        else:
            initial[parameter.name] = torch.full_like(values, float("nan")) if parameter.access == "out" else values
    return Case(given=given, initial=initial)


def _sizes(dims: Mapping[str, int], seqlens: Sequence[int], heads: tuple[int, int], n_chunks: int) -> dict[str, int]:
    n_sequences, (h, hv) = len(seqlens), heads
    width = dims.get("K", 1)
    sizes = {"T": sum(seqlens), "N": n_sequences, "NC": n_chunks, "H": h, "HV": hv, "SLOTS": n_sequences + 2}
    return {**sizes, "": (2 * h + hv) * width}


def _size(extent: str, sizes: Mapping[str, int]) -> int:
    dim, more = dim_and_more(extent)
    return sizes.get(dim, sizes[""]) + more


def _values(dtype: str, shape: list[int], gen: torch.Generator) -> Tensor:
    n = torch.Size(shape).numel()
    if dtype == "bool":
        return (torch.arange(n) % 2 == 0).reshape(shape)
    if dtype in ("i32", "i64"):
        slots = torch.arange(1, n + 1, dtype=TORCH_DTYPES[dtype])
        if n > 1:
            slots[0] = 0
        return slots.reshape(shape)
    return (torch.randn(shape, generator=gen) / 2).to(TORCH_DTYPES[dtype])
