"""The host's half: the kernels in the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loomgen.conformance.case import INCLUDE, Case
from loomgen.conformance.compare import Array
from loomgen.emulator import Buffer, EmulatedKernel, Parameter, compile_kernel
from loomgen.emulator.arguments import Value


class UnwrittenOutput(AssertionError):
    """A kernel that leaves elements of its output as they were; a fault of the kernel."""


def run_on_host(case: Case, kernel: EmulatedKernel, inputs: Sequence[Array]) -> Array:
    """The case's output in the emulator; one launch at a time.

    Raises EmulatorFault for what the kernel does wrong and :class:`UnwrittenOutput` if it does too little.
    """
    output = case.empty_output()
    arguments: dict[str, Value] = {f"input{i}": Buffer(array, "in") for i, array in enumerate(inputs)}
    arguments["output"] = Buffer(output, "out")
    arguments |= {f"scalar{i}": value for i, value in enumerate(case.scalars)}
    report = kernel.launch(arguments, grid=case.grid, block=case.block, shared_bytes=case.shared_bytes)
    if report.unwritten:
        raise UnwrittenOutput(f"{case.name} left {report.unwritten['output']} bytes unwritten")
    return output


def compile_for_host(case: Case, n_inputs: int, cache: Path) -> EmulatedKernel:
    """The case's kernel for the emulator; ``cache`` holds what was compiled before."""
    parameters = (
        *(Parameter(f"input{i}", "pointer") for i in range(n_inputs)),
        Parameter("output", "pointer"),
        *(Parameter(f"scalar{i}", "i32") for i in range(len(case.scalars))),
    )
    return compile_kernel(case.source_path, case.kernel, parameters, [INCLUDE], cache)
