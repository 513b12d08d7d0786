"""The emulator: runs the committed ``.cu`` files on a CPU and checks everything they do.

A kernel is compiled as C++ against the host bodies of the device primitives; every CUDA thread is a fiber. See
``docs/primitives.md`` for what the primitives compute and :class:`FaultKind` for what is checked.
"""

from loomgen.emulator.arguments import Buffer, TensorMap
from loomgen.emulator.build import KernelSource, Parameter
from loomgen.emulator.kernel import EmulatedKernel, EmulatorOptions, compile_kernels
from loomgen.emulator.report import BankUse, EmulatorBuildError, EmulatorFault, EmulatorReport, FaultKind

__all__ = [
    "BankUse",
    "Buffer",
    "EmulatedKernel",
    "EmulatorBuildError",
    "EmulatorFault",
    "EmulatorOptions",
    "EmulatorReport",
    "FaultKind",
    "KernelSource",
    "Parameter",
    "TensorMap",
    "compile_kernels",
]
