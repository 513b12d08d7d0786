"""Where the operator is repeated: on the first GPU, or in the emulator on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from loomgen.emulator import EmulatorOptions
from loomgen.errors import NoGpu
from loomgen.ops.library import emulated_library
from loomgen.verify.op import run_on, run_op
from loomgen.verify.op_cases import OpCase, OpInputs, op_inputs
from loomgen.verify.op_gradients import OutputGradients, output_gradients, with_gradients

Results = Mapping[str, Tensor]
"""``o``, ``final_state`` and the gradients, by name."""

_SPOILED_SIZES = tuple(2**n for n in (7, 10, 12, 16, 18, 20, 22, 25))
"""Numbers of fp32 values in tensors that are filled with NaN and freed: some of each size that calls allocate."""

_LARGEST_SPOILED = {"cuda": 2**25, "cpu": 2**18}
_SPOILED_OF_EACH = 8
_HEAD_START = 20_000_000
"""Cycles, some 10 ms, that each of several streams waits while the host fills all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A forward and its backward: a case, its tensors, and the gradients of its results."""

    case: OpCase
    inputs: OpInputs
    given: OutputGradients


def make_call(case: OpCase, seed: int) -> Call:
    """On the CPU."""
    inputs = op_inputs(case, seed)
    return Call(case=case, inputs=inputs, given=output_gradients(case, inputs, seed))


class Machine(Protocol):
    """What the operator runs on."""

    def place(self, call: Call) -> Call:
        """``call`` with its tensors where the machine reads them."""

    def run(self, call: Call, repeat: int) -> Results:
        """The results and gradients; ``repeat`` may decide what a machine leaves open, and must not decide them."""

    def spoil(self) -> None:
        """Leaves NaNs in memory that the next allocations get."""

    def at_once(self, jobs: Sequence[Callable[[], Tensor]]) -> list[Tensor]:
        """What the jobs return, which run side by side."""


class Gpu:
    """The first GPU; nothing waits for it but the caller. Raises NoGpu."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise NoGpu("no NVIDIA GPU that torch can use; --backend emulate does the same in small on the CPU")
        self._device = torch.device("cuda", 0)

    def place(self, call: Call) -> Call:
        return Call(case=call.case, inputs=_moved(call.inputs, self._device), given=_moved(call.given, self._device))

    def run(self, call: Call, repeat: int) -> Results:
        """In every other repeat only the GPU knows the lengths of packed sequences."""
        is_packed = call.case.packed and repeat % 2 == 0
        host = torch.tensor([0, *accumulate(call.case.lengths)]) if is_packed else None
        return with_gradients(
            lambda leaves: run_op(call.case, leaves, "cuda", cu_seqlens_cpu=host, checked=False),
            call.inputs,
            call.given,
        )

    def spoil(self) -> None:
        spoil(self._device)

    def at_once(self, jobs: Sequence[Callable[[], Tensor]]) -> list[Tensor]:
        """Each on a stream of its own; the streams start together."""
        current = torch.cuda.current_stream(self._device)
        streams = [torch.cuda.Stream(self._device) for _ in jobs]  # type: ignore[no-untyped-call]

        def on_stream(stream: torch.cuda.Stream, job: Callable[[], Tensor]) -> Tensor:
            with torch.cuda.stream(stream):
                stream.wait_stream(current)
                torch.cuda._sleep(_HEAD_START)  # type: ignore[no-untyped-call]
                return job()

        with ThreadPoolExecutor(len(jobs)) as pool:
            results = list(pool.map(on_stream, streams, jobs))
        for stream in streams:
            current.wait_stream(stream)
        return results


class Emulator:
    """The emulated kernels of ``arch``: each repeat has an order of blocks and threads of its own."""

    def __init__(self, arch: str) -> None:
        self._library = emulated_library(arch)

    def place(self, call: Call) -> Call:
        return call

    def run(self, call: Call, repeat: int) -> Results:
        options = EmulatorOptions(seed=repeat, completion="random" if repeat % 2 else "late")
        library = replace(self._library, options=options)
        return with_gradients(lambda leaves: run_on(library, call.case, leaves), call.inputs, call.given)

    def spoil(self) -> None:
        spoil(torch.device("cpu"))

    def at_once(self, jobs: Sequence[Callable[[], Tensor]]) -> list[Tensor]:
        with ThreadPoolExecutor(len(jobs)) as pool:
            return list(pool.map(lambda job: job(), jobs))


Tensors = TypeVar("Tensors", OpInputs, OutputGradients)


def _moved(tensors: Tensors, device: torch.device) -> Tensors:
    present = {field.name: getattr(tensors, field.name) for field in fields(tensors)}
    return replace(tensors, **{name: x.to(device) for name, x in present.items() if x is not None})


def spoil(device: torch.device) -> None:
    """Leaves NaNs in memory that the next allocations on ``device`` get, small and large: of up to 128 MiB on a GPU, of
    up to 1 MiB on the CPU. Does not wait for the GPU."""
    sizes = [size for size in _SPOILED_SIZES if size <= _LARGEST_SPOILED[device.type]]
    held = [torch.full((size,), float("nan"), device=device) for size in sizes for _ in range(_SPOILED_OF_EACH)]
    del held
