"""What a call would launch, and why that scan: from lengths and heads alone, without a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loomgen.ops.batch import bounded_batch, known_batch
from loomgen.ops.dispatch import (
    CHUNK,
    SCAN_VARIANTS,
    CallShape,
    ScanVariant,
    scan_reason,
    scan_variant,
    select,
)
from loomgen.ops.packed import dims
from loomgen.ops.workspace import plan_forward
from loomgen.registry.model import KernelEntry, Registry
from loomgen.target import Target, occupancy

_TABLE_ENTRY_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch: ``blocks`` along x."""

    kernel: str
    blocks: int
    threads: int
    shared_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A variant of the state scan. ``resident`` blocks fit on a multiprocessor with the most registers that its launch
    bounds allow; ``steps`` chunks follow one another in the longest chain: waves of blocks times the longest sequence.
    """

    variant: ScanVariant
    blocks: int
    resident: int
    waves: int
    idle_share: float
    steps: int
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """``table_bytes`` are those of the window tables, ``workspace_bytes`` what a call allocates beside its results."""

    n_tokens: int
    n_sequences: int
    n_chunks: int
    table_bytes: int
    workspace_bytes: int
    scans: tuple[Scan, ...]
    reason: str
    launches: tuple[Launch, ...]


def forecast(
    registry: Registry,
    target: Target,
    shape: CallShape,
    lengths: Sequence[int],
    key_heads: int,
    multiprocessors: int,
) -> Forecast:
    """The forward of sequences with these ``lengths``; where ``shape.offsets`` is set only the GPU knows them.

    Raises LoomgenError where the registry lacks a kernel.
    """
    n_tokens = sum(lengths)
    batch = known_batch(lengths) if shape.offsets is None else bounded_batch(n_tokens, len(lengths))
    sizes = dims(
        n_tokens=n_tokens,
        n_sequences=len(lengths),
        n_chunks=batch.n_chunks,
        key_heads=key_heads,
        value_heads=shape.value_heads,
    )
    chosen = scan_variant(shape, multiprocessors)
    kernels = select(registry, shape, chosen)
    longest = max((-(-length // CHUNK) for length in lengths), default=0)
    scans = (
        _scan(select(registry, shape, variant).fwd_h, variant, target, sizes, multiprocessors, longest)
        for variant in SCAN_VARIANTS
    )
    return Forecast(
        n_tokens=n_tokens,
        n_sequences=len(lengths),
        n_chunks=batch.n_chunks,
        table_bytes=_TABLE_ENTRY_BYTES * 2 * (batch.n_chunks + len(lengths) + 1),
        workspace_bytes=plan_forward(kernels, sizes).scratch.n_bytes,
        scans=tuple(replace(scan, chosen=scan.variant == chosen) for scan in scans),
        reason=scan_reason(shape, multiprocessors),
        launches=tuple(_launch(kernel, sizes) for kernel in kernels.in_order()),
    )


def _launch(kernel: KernelEntry, sizes: dict[str, int]) -> Launch:
    return Launch(
        kernel=kernel.name,
        blocks=math.prod(extent if isinstance(extent, int) else sizes[extent] for extent in kernel.launch.grid),
        threads=kernel.launch.threads,
        shared_bytes=kernel.launch.dynamic_shared_bytes,
    )


def _scan(
    kernel: KernelEntry, variant: ScanVariant, target: Target, sizes: dict[str, int], multiprocessors: int, longest: int
) -> Scan:
    launch = _launch(kernel, sizes)
    promised = max(1, kernel.launch.min_blocks)
    registers = min(target.max_registers_per_thread, target.registers_per_sm // (launch.threads * promised))
    registers -= registers % (target.register_unit // target.warp_size)
    resident = occupancy(target, threads=launch.threads, registers=registers, shared_bytes=launch.shared_bytes).blocks
    waves = -(-launch.blocks // (multiprocessors * max(1, resident)))
    return Scan(
        variant=variant,
        blocks=launch.blocks,
        resident=resident,
        waves=waves,
        idle_share=max(0.0, 1 - launch.blocks / multiprocessors),
        steps=waves * longest,
        chosen=False,
    )
