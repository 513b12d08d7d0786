"""Which kernels of a registry the backward of a call runs."""

from __future__ import annotations

from dataclasses import dataclass

from loomgen.ops.dispatch import (
    CHUNK,
    SCAN_VARIANTS,
    CallShape,
    ScanVariant,
    find_kernel,
    raw_dtypes,
    scan_variant,
    select,
)
from loomgen.registry.model import KernelEntry, Registry
from loomgen.runtime.dtypes import DTYPE_NAMES

STAGES = ("dv_local", "dhu", "chunk_grads")
"""The stages of a backward, in the order in which they run."""

GATE_GRADIENTS = ("gate_grads", "gate_sums")
"""After them where gates or steps come in raw: their gradients, and those of A_log and dt_bias from their chunks'
parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardKernels:
    """The kernels of one backward, a stage each. ``fwd_h`` only where the forward has not kept its states;
    ``chunk_grads`` and what follows it only where more than the initial state's gradient is asked for; ``gate_grads``
    and ``gate_sums`` only where steps or gates come in raw.
    """

    fwd_h: KernelEntry | None
    dv_local: KernelEntry
    dhu: KernelEntry
    chunk_grads: KernelEntry | None
    gate_grads: KernelEntry | None
    gate_sums: KernelEntry | None

    def in_order(self) -> tuple[KernelEntry, ...]:
        stages = (self.fwd_h, self.dv_local, self.dhu, self.chunk_grads, self.gate_grads, self.gate_sums)
        return tuple(stage for stage in stages if stage is not None)


def select_backward(
    registry: Registry,
    shape: CallShape,
    *,
    has_states: bool,
    of_inputs: bool = True,
    variant: ScanVariant | None = None,
) -> BackwardKernels:
    """The kernels for calls of ``shape``: ``has_states`` where the forward kept h and v_new, ``of_inputs`` where more
    than the initial state's gradient is wanted. ``variant`` overrides the choice of both scans.

    Raises LoomgenError where the registry lacks one.
    """
    dims = {"C": CHUNK, "K": shape.head_dim, "V": shape.head_dim}
    activation = DTYPE_NAMES[shape.activation]
    scan = variant or scan_variant(shape)
    recomputes = of_inputs and not has_states
    is_raw = shape.raw_gate is not None or shape.raw_step is not None
    grads, sums = GATE_GRADIENTS
    return BackwardKernels(
        fwd_h=find_kernel(registry, "fwd_h", dims, {"v": activation}, scan) if recomputes else None,
        dv_local=find_kernel(registry, "dv_local", dims, {"do": activation}),
        dhu=find_kernel(registry, "dhu", dims, {"do": activation}, scan),
        chunk_grads=find_kernel(registry, "chunk_grads", dims, {"do": activation}) if of_inputs else None,
        gate_grads=find_kernel(registry, grads, {"C": CHUNK}, raw_dtypes(shape)) if of_inputs and is_raw else None,
        gate_sums=find_kernel(registry, sums, {"C": CHUNK}, {}) if of_inputs and shape.raw_gate is not None else None,
    )


def kernels_of_kind(registry: Registry, shape: CallShape, *, trains: bool) -> tuple[KernelEntry, ...]:
    """Every kernel that calls with the dims and dtypes of ``shape`` may run, whatever their sequences and heads: all
    variants of the scans, and where the call ``trains`` those of its backward.

    Raises LoomgenError where the registry lacks one.
    """
    found: dict[str, KernelEntry] = {}
    for variant in SCAN_VARIANTS:
        kernels = select(registry, shape, variant).in_order()
        if trains:
            kernels += select_backward(registry, shape, has_states=False, variant=variant).in_order()
        found |= {kernel.name: kernel for kernel in kernels}
    return tuple(found.values())
