"""Which kernels of a registry a call runs: a function of its head dims, dtypes, sequences and heads alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from typing_extensions import assert_never

from loomgen.errors import LoomgenError
from loomgen.registry.model import KernelEntry, Registry
from loomgen.registry.tables import WINDOW_TABLES
from loomgen.runtime.dtypes import DTYPE_NAMES

FAMILY = "gdn"
STAGES = ("prep", "wy", "fwd_h", "fwd_o")
"""The stages of a forward, in the order in which they run."""

GATES = "gates"
"""Before the forward where gates or steps come in raw."""

MADE_NAMES = {"gate": "made_gate", "step": "made_step"}
"""What `prep` reads, and the tensors of ``gates`` that take the place of the caller's."""

TABLES, SLACK = "meta", "slack"
"""Where only the GPU knows the lengths: before the forward, its window tables from the sequences' offsets; after it,
zeros for the tokens of no sequence."""

TABLE_NAMES = dict(zip(WINDOW_TABLES, ("bounds", "seq_chunks", "starts", "lengths"), strict=True))
"""The window tables, and the tensors of ``meta`` that are them."""

KEPT_LENGTHS = ("q_rstd", "k_rstd")
"""What ``prep`` leaves of rows that it normalises, for a backward."""

RECOMPUTE = "wy_recompute"
"""The WY representation, u and w, from the inverse that a forward leaves: no part of a forward."""

CHUNK = 64
HEAD_DIMS = (64, 128)
"""Keys and values have the same head dim."""

ACTIVATIONS = (torch.bfloat16, torch.float16)
STEPS = (torch.float32, torch.bfloat16)
RAW = (torch.float32, torch.bfloat16, torch.float16)
"""Of raw gates and raw steps."""

ScanVariant = Literal["r32k2", "r32k1", "r64k1"]
"""r<rows>k<parts>: the rows of the state that a block owns, and the groups of warps that its keys are split over."""
SCAN_VARIANTS: tuple[ScanVariant, ...] = get_args(ScanVariant)

MULTIPROCESSORS = 132
"""Of the GPU that the choice of the scan is made for. Decides speed, never bits."""

_IDLE_SHARE = 0.4
"""Multiprocessors without a block at which the wider blocks of r64k1 stop paying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """What decides which kernels run. ``activation`` is the dtype of q, k and v, ``step`` that of beta as `prep` reads
    it, ``offsets`` that of ``cu_seqlens`` where only the GPU knows what it holds, else None; ``raw_gate`` and
    ``raw_step`` those of g and beta where they come in raw, else None. ``keeps_lengths``: a backward will ask for
    those of q and k.
    """

    n_sequences: int
    value_heads: int
    head_dim: int
    activation: torch.dtype
    step: torch.dtype
    offsets: torch.dtype | None = None
    raw_gate: torch.dtype | None = None
    raw_step: torch.dtype | None = None
    keeps_lengths: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardKernels:
    """The kernels of one call, a stage each; ``meta`` and ``slack`` only where it is the GPU that knows the lengths,
    ``gates`` only where gates or steps come in raw. ``left_out``: what those could write and the call does not ask for.
    """

    meta: KernelEntry | None = None
    gates: KernelEntry | None = None
    prep: KernelEntry
    wy: KernelEntry
    fwd_h: KernelEntry
    fwd_o: KernelEntry
    slack: KernelEntry | None = None
    left_out: frozenset[str] = frozenset()

    def in_order(self) -> tuple[KernelEntry, ...]:
        stages = (self.meta, self.gates, self.prep, self.wy, self.fwd_h, self.fwd_o, self.slack)
        return tuple(stage for stage in stages if stage is not None)


def scan_variant(shape: CallShape, multiprocessors: int = MULTIPROCESSORS) -> ScanVariant:
    """The variant of the state scan; all of them give the same bits.

    r32k2 puts two groups of warps on a step, which pays while its blocks have a multiprocessor each: then a step's
    latency is what counts. r64k1 reads keys and A half as often as the others and wins once its blocks fill most of the
    GPU. r32k1 stands between them. `docs/evidence/scan_variants.h200.json` has the times.
    """
    rows = _rows(shape)
    if rows <= 32 * multiprocessors:
        return "r32k2"
    return "r32k1" if rows < 64 * (1 - _IDLE_SHARE) * multiprocessors else "r64k1"


def scan_reason(shape: CallShape, multiprocessors: int = MULTIPROCESSORS) -> str:
    """Why :func:`scan_variant` chooses as it does, for a reader."""
    narrow, wide = _rows(shape) // 32, _rows(shape) // 64
    match scan_variant(shape, multiprocessors):
        case "r32k2":
            return (
                f"each of its {narrow} blocks has one of {multiprocessors} multiprocessors to itself: "
                "a step's latency counts, and two groups of warps share it"
            )
        case "r32k1":
            return (
                f"{narrow} blocks of 32 rows are more than {multiprocessors} multiprocessors, and {wide} of 64 would "
                f"leave more than {_IDLE_SHARE:.0%} of them idle"
            )
        case "r64k1":
            return f"{wide} blocks of 64 rows fill most of {multiprocessors} multiprocessors and read half as often"
        case _ as never:
            assert_never(never)


def _rows(shape: CallShape) -> int:
    """Rows of all states together."""
    return shape.n_sequences * shape.value_heads * shape.head_dim


def select(registry: Registry, shape: CallShape, variant: ScanVariant | None = None) -> ForwardKernels:
    """The kernels for calls of ``shape``; ``variant`` overrides :func:`scan_variant`.

    Raises LoomgenError where the registry lacks one.
    """
    dims = {"C": CHUNK, "K": shape.head_dim, "V": shape.head_dim}
    activation, step = DTYPE_NAMES[shape.activation], DTYPE_NAMES[shape.step]
    offsets = None if shape.offsets is None else DTYPE_NAMES[shape.offsets]
    return ForwardKernels(
        meta=None if offsets is None else find_kernel(registry, TABLES, dims, {"offsets": offsets}),
        gates=_select_gates(registry, shape),
        prep=find_kernel(registry, "prep", dims, {"q": activation, "step": step}),
        wy=find_kernel(registry, "wy", dims, {"A": activation}),
        fwd_h=find_kernel(registry, "fwd_h", dims, {"v": activation}, variant or scan_variant(shape)),
        fwd_o=find_kernel(registry, "fwd_o", dims, {"o": activation}),
        slack=None if offsets is None else find_kernel(registry, SLACK, dims, {"tail": activation}),
        left_out=_left_out(shape),
    )


def _left_out(shape: CallShape) -> frozenset[str]:
    made = {MADE_NAMES[name] for name, raw in (("gate", shape.raw_gate), ("step", shape.raw_step)) if raw is None}
    return frozenset(made if shape.keeps_lengths else made.union(KEPT_LENGTHS))


def _select_gates(registry: Registry, shape: CallShape) -> KernelEntry | None:
    if shape.raw_gate is None and shape.raw_step is None:
        return None
    return find_kernel(registry, GATES, {"C": CHUNK}, raw_dtypes(shape))


def raw_dtypes(shape: CallShape) -> dict[str, str]:
    """Those of a and b; of one that is left out the dtype does not matter."""
    a, b = (DTYPE_NAMES[dtype or torch.float32] for dtype in (shape.raw_gate, shape.raw_step))
    return {"a": a, "b": b}


def select_recompute(registry: Registry, shape: CallShape) -> KernelEntry:
    """The kernel that makes the u and w of a call of ``shape`` from its inverse A."""
    dims = {"C": CHUNK, "K": shape.head_dim, "V": shape.head_dim}
    return find_kernel(registry, RECOMPUTE, dims, {"v": DTYPE_NAMES[shape.activation]})


def find_kernel(
    registry: Registry, stage: str, dims: Mapping[str, int], dtypes: Mapping[str, str], variant: str = "base"
) -> KernelEntry:
    """The kernel of a stage whose static dims are among ``dims`` and whose named arguments have ``dtypes``."""
    for entry in registry.kernels:
        found = {argument.name: argument.dtype for argument in entry.arguments if argument.name in dtypes}
        if (
            (entry.family, entry.stage, entry.variant) == (FAMILY, stage, variant)
            and entry.constraints.dims.items() <= dims.items()
            and found == dtypes
        ):
            return entry
    wanted = ", ".join(f"{name} {value}" for name, value in {**dims, **dtypes}.items())
    raise LoomgenError(
        f"the registry of {registry.arch} has no kernel {stage} {variant} for {wanted}: run `loomgen render`"
    )
