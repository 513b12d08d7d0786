"""The host's half: the kernels in the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loomgen.conformance.case import INCLUDE, Case
from loomgen.conformance.compare import Array
from loomgen.emulator import Buffer, EmulatedKernel, KernelSource, Parameter, TensorMap, compile_kernels
from loomgen.emulator.arguments import Value


class UnwrittenOutput(AssertionError):
    """A kernel that leaves elements of its output as they were; a fault of the kernel."""


def run_on_host(case: Case, kernel: EmulatedKernel, inputs: Sequence[Array]) -> Array:
    """The case's output in the emulator; one launch at a time.

    Raises EmulatorFault for what the kernel does wrong and :class:`UnwrittenOutput` if it does too little.
    """
    output = case.empty_output()
    arguments: dict[str, Value] = {f"input{i}": _argument(case, i, Buffer(a, "in")) for i, a in enumerate(inputs)}
    arguments["output"] = _argument(case, len(inputs), Buffer(output, "out"))
    arguments |= {f"scalar{i}": value for i, value in enumerate(case.scalars)}
    report = kernel.launch(arguments, grid=case.grid, block=case.block, shared_bytes=case.shared_bytes)
    if report.unwritten:
        raise UnwrittenOutput(f"{case.name} left {sum(report.unwritten.values())} bytes unwritten")
    return output


def _argument(case: Case, position: int, buffer: Buffer) -> Buffer | TensorMap:
    """The array that is parameter ``position`` of the kernel."""
    box = case.box(position)
    if box is None:
        return buffer
    assert buffer.array is not None
    rows, cols = buffer.array.shape
    return TensorMap(
        tensor=f"array{position}",
        buffer=buffer,
        rows=rows,
        cols=cols,
        box_rows=box.rows,
        box_cols=box.cols,
        swizzle=box.swizzle,
    )


def compile_for_host(cases: Sequence[tuple[Case, int]], cache: Path) -> dict[str, EmulatedKernel]:
    """The kernels of cases of one source for the emulator, by name; a case comes with the number of its inputs.
    ``cache`` holds what was compiled before.
    """
    sources = {case.kernel: _kernel_source(case, n_inputs) for case, n_inputs in cases}
    kernels = compile_kernels(tuple(sources.values()), [INCLUDE], cache)
    return dict(zip(sources, kernels, strict=True))


def _kernel_source(case: Case, n_inputs: int) -> KernelSource:
    names = (*(f"input{i}" for i in range(n_inputs)), "output")
    parameters = (
        *(Parameter(name, "tensor_map" if case.box(i) else "pointer") for i, name in enumerate(names)),
        *(Parameter(f"scalar{i}", "i32") for i in range(len(case.scalars))),
    )
    return KernelSource(path=case.source_path, symbol=case.kernel, parameters=parameters)
