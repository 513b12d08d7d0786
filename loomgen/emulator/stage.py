"""Running a registry's kernels on CPU tensors: the committed source, as it stands, in the emulator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from loomgen.emulator.arguments import Access, Buffer, TensorMap
from loomgen.emulator.arguments import Value as EmulatorValue
from loomgen.emulator.build import KernelSource, Parameter
from loomgen.emulator.kernel import EmulatedKernel, EmulatorOptions, compile_kernels
from loomgen.emulator.report import EmulatorReport
from loomgen.registry.model import ArgumentEntry, BoxEntry, KernelEntry
from loomgen.runtime.bind import Value, bind

COMPILATIONS = 2
"""g++ runs at a time: it wants a few hundred megabytes for a large kernel."""

_DEFAULTS = EmulatorOptions()
_KINDS: dict[str, Literal["i32", "i64", "f32", "bool"]] = {"i32": "i32", "i64": "i64", "f32": "f32", "bool": "bool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedStage:
    """A registry kernel compiled for the host."""

    entry: KernelEntry
    kernel: EmulatedKernel

    def run(self, given: Mapping[str, Value], options: EmulatorOptions = _DEFAULTS) -> EmulatorReport:
        """Launches on CPU tensors and scalars by name, writing out and inout tensors in place."""
        call = bind(self.entry, given)
        arguments = {argument.name: _argument(argument, value) for argument, value in call.values}
        return self.kernel.launch(
            arguments,
            grid=call.blocks,
            block=self.entry.launch.threads,
            shared_bytes=self.entry.launch.dynamic_shared_bytes,
            options=options,
        )


def emulated_stage(
    entry: KernelEntry, root: Path, *, source: Path | None = None, cache: Path | None = None
) -> EmulatedStage:
    """Compiles the kernel's source under ``root``, with the headers exported beside it; cached in ``cache``, by default
    under ``build/``.

    ``source`` takes the place of the committed source. Raises EmulatorBuildError.
    """
    return _compiled([(entry, source or root / entry.source.path)], root, cache)[0]


def committed_stages(
    libraries: Iterable[Sequence[KernelEntry]], root: Path, *, cache: Path | None = None
) -> tuple[EmulatedStage, ...]:
    """Compiles committed sources as :func:`emulated_stage` does, the kernels of each of ``libraries`` into one library
    and :data:`COMPILATIONS` libraries at a time. Raises EmulatorBuildError.
    """

    def compiled(kernels: Sequence[KernelEntry]) -> tuple[EmulatedStage, ...]:
        return _compiled([(kernel, root / kernel.source.path) for kernel in kernels], root, cache)

    with ThreadPoolExecutor(COMPILATIONS) as pool:
        return tuple(stage for stages in pool.map(compiled, libraries) for stage in stages)


def _compiled(kernels: Sequence[tuple[KernelEntry, Path]], root: Path, cache: Path | None) -> tuple[EmulatedStage, ...]:
    return emulated_stages(kernels, root / "generated" / "include", cache or root / "build" / "emulator")


def emulated_stages(
    kernels: Sequence[tuple[KernelEntry, Path]], include: Path, cache: Path, library: Path | None = None
) -> tuple[EmulatedStage, ...]:
    """Compiles kernels, each with its source, into one library; ``include`` holds the headers, ``cache`` what was
    built before, and the library unless another folder is given for it. Raises EmulatorBuildError.
    """
    sources = [
        KernelSource(path=source, symbol=entry.symbol, parameters=tuple(map(_parameter, entry.arguments)))
        for entry, source in kernels
    ]
    compiled = compile_kernels(sources, [include], cache, library)
    return tuple(
        EmulatedStage(entry=entry, kernel=kernel) for (entry, _), kernel in zip(kernels, compiled, strict=True)
    )


def _parameter(argument: ArgumentEntry) -> Parameter:
    match argument.kind:
        case "tensor" | "table":
            return Parameter(argument.name, "pointer")
        case "tensor_map":
            return Parameter(argument.name, "tensor_map")
        case _:
            return Parameter(argument.name, _KINDS[argument.dtype])


def _argument(argument: ArgumentEntry, value: Value) -> EmulatorValue:
    if argument.kind == "tensor_map":
        assert isinstance(value, Tensor)
        return _map(argument, value)
    if argument.kind not in ("tensor", "table"):
        assert value is not None and not isinstance(value, Tensor)
        return value
    array = _memory(value) if isinstance(value, Tensor) else None
    return Buffer(array, cast(Access, argument.access))


def _map(argument: ArgumentEntry, tensor: Tensor) -> TensorMap:
    """The matrix whose rows are the tensor's first dimension."""
    box = argument.source
    assert isinstance(box, BoxEntry)
    return TensorMap(
        tensor=box.tensor,
        buffer=Buffer(_memory(tensor), cast(Access, argument.access)),
        rows=tensor.shape[0],
        cols=math.prod(tensor.shape[1:]),
        box_rows=box.rows,
        box_cols=box.cols,
        swizzle=box.swizzle,
    )


def _memory(tensor: Tensor) -> npt.NDArray[Any]:
    """The memory from the tensor's first to its last element, gaps included, as a flat array of its bits."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    flat = torch.as_strided(tensor, (span if tensor.numel() else 0,), (1,))
    if tensor.dtype in (torch.bfloat16, torch.float16):
        return flat.view(torch.int16).numpy().view(np.uint16)
    array: npt.NDArray[Any] = flat.numpy()
    return array
