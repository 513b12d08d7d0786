"""Binding: the values of a kernel's parameters, from the tensors of a call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from loomgen.registry.model import ArgumentEntry, KernelEntry, StrideSource, dim_and_more
from loomgen.runtime.dtypes import TORCH_DTYPES

Value = Tensor | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCall:
    """One launch: a value for each parameter in order, and the number of blocks."""

    kernel: KernelEntry
    values: tuple[tuple[ArgumentEntry, Value], ...]
    blocks: int


def bind(kernel: KernelEntry, given: Mapping[str, Value]) -> BoundCall:
    """The call of ``kernel`` with tensors and scalars by name; dims and strides follow from the tensors.

    A dim that no tensor has is given as a number, like a scalar; where a tensor has it as well, the two must agree.
    Raises ValueError that names the argument, its value and what was expected, or the kernel and the dims that it does
    not take; nothing has been launched then.
    """
    pointers = {
        argument.tensor: _pointer(argument, given.get(argument.tensor))
        for argument in kernel.arguments
        if argument.tensor is not None
    }
    _check_strides(kernel, pointers)
    dims = _dims(kernel, pointers, given)
    _check_multiples(kernel, dims)
    values = tuple((argument, _value(argument, given, pointers, dims)) for argument in kernel.arguments)
    blocks = math.prod(extent if isinstance(extent, int) else _dim(extent, dims) for extent in kernel.launch.grid)
    return BoundCall(kernel=kernel, values=values, blocks=blocks)


def _pointer(argument: ArgumentEntry, value: Value) -> Tensor | None:
    if value is None:
        if argument.optional:
            return None
        raise ValueError(f"{argument.tensor}: missing, expected a tensor of {argument.dtype}")
    if not isinstance(value, Tensor) or value.dtype is not TORCH_DTYPES[argument.dtype]:
        found = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"{argument.tensor}: {found}, expected a tensor of {argument.dtype}")
    if value.dim() != len(argument.shape):
        raise _wrong_shape(argument, value, _text(argument))
    return value


def _check_strides(kernel: KernelEntry, pointers: Mapping[str, Tensor | None]) -> None:
    """A dimension without a stride parameter is where a row-major tensor has it; of strided tensors only the last."""
    passed = {(a.source.tensor, a.source.dim) for a in kernel.arguments if isinstance(a.source, StrideSource)}
    strided = {tensor for tensor, _ in passed}
    for name, tensor in pointers.items():
        if tensor is None or (name, tensor.dim() - 1) in passed:
            continue
        if name not in strided and not tensor.is_contiguous():
            raise ValueError(f"{name}: strides {tensor.stride()}, expected a contiguous tensor")
        if name in strided and tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise ValueError(f"{name}: strides {tensor.stride()}, expected 1 in the last dimension")


def _dims(kernel: KernelEntry, pointers: Mapping[str, Tensor | None], given: Mapping[str, Value]) -> dict[str, int]:
    """Every run-time dim, equal wherever it occurs."""
    names = [argument.name for argument in kernel.arguments if argument.kind == "dim"]
    names += [extent for extent in kernel.launch.grid if isinstance(extent, str)]
    dims = {name: number for name in names if isinstance(number := given.get(name), int)}
    for argument in kernel.arguments:
        tensor = pointers.get(argument.tensor or "")
        if tensor is None:
            continue
        for extent, size in zip(argument.shape, tensor.shape, strict=True):
            if isinstance(extent, int):
                known, found = extent, size
            else:
                dim, more = dim_and_more(extent)
                found = size - more
                known = dims.setdefault(dim, found)
            if known != found:
                expected = _text(argument) if isinstance(extent, int) else f"{_text(argument)} with {dim} = {known}"
                raise _wrong_shape(argument, tensor, expected)
    return dims


def _check_multiples(kernel: KernelEntry, dims: Mapping[str, int]) -> None:
    for required in kernel.constraints.multiples:
        found, divisor = _dim(required.dim, dims), _dim(required.of, dims)
        if divisor < 1 or found % divisor:
            expected = f"a multiple of {required.of} = {divisor} for {kernel.name}"
            raise ValueError(f"{required.dim}: {found}, expected {expected}")


def _text(argument: ArgumentEntry) -> str:
    return f"[{', '.join(map(str, argument.shape))}]"


def _wrong_shape(argument: ArgumentEntry, tensor: Tensor, expected: str) -> ValueError:
    return ValueError(f"{argument.tensor}: shape {list(tensor.shape)}, expected {expected}")


def _value(
    argument: ArgumentEntry, given: Mapping[str, Value], pointers: Mapping[str, Tensor | None], dims: Mapping[str, int]
) -> Value:
    match argument.kind:
        case "dim":
            return _dim(argument.name, dims)
        case "stride":
            assert isinstance(argument.source, StrideSource)
            tensor = pointers[argument.source.tensor]
            return 0 if tensor is None else tensor.stride(argument.source.dim)
        case "scalar":
            if argument.name not in given:
                raise ValueError(f"{argument.name}: missing, expected a {argument.dtype}")
            return given[argument.name]
        case _:
            return pointers[argument.tensor or ""]


def _dim(name: str, dims: Mapping[str, int]) -> int:
    if name not in dims:
        raise ValueError(f"{name}: unknown, expected a number or a tensor that has this dim")
    return dims[name]
