"""The memory that a call needs beside its results: what one stage hands to the next."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from loomgen.ops.asked import check_asked
from loomgen.ops.dispatch import CHUNK, KEPT_LENGTHS, MADE_NAMES, TABLE_NAMES, CallShape, ForwardKernels, select
from loomgen.ops.dispatch_backward import BackwardKernels
from loomgen.ops.library import any_registry
from loomgen.ops.packed import dims
from loomgen.registry.model import ArgumentEntry, KernelEntry
from loomgen.runtime.dtypes import TORCH_DTYPES
from loomgen.runtime.tables import most_chunks

RESULTS = ("o", "ht", "tail")
"""What stages write for the caller."""

Save = Literal["minimal", "states"]
"""How much a forward saves for its backward: all but the scan's results, which the backward then makes again, or
those as well."""

_MINIMAL = frozenset({*TABLE_NAMES.values(), *KEPT_LENGTHS, "qn", "kn", "G", "beta", "A"})
SAVED: Mapping[Save, frozenset[str]] = {"minimal": _MINIMAL, "states": _MINIMAL | {"h", "v_new"}}
SAVES: tuple[Save, ...] = get_args(Save)

_ALIGNMENT_BYTES = 256


def check_save(save: str) -> None:
    """Raises ValueError."""
    if save not in SAVES:
        raise ValueError(f"save: {save!r}, expected {' or '.join(SAVES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A tensor of the workspace, ``offset`` bytes from its start."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Every intermediate tensor of a call, by name, in one piece of memory."""

    places: Mapping[str, Place]
    n_bytes: int

    def allocate(self, device: torch.device) -> dict[str, Tensor]:
        """The tensors, not initialised, in one allocation."""
        return self.views(torch.empty(self.n_bytes, dtype=torch.uint8, device=device))

    def views(self, memory: Tensor) -> dict[str, Tensor]:
        """The tensors in ``memory``, ``n_bytes`` of uint8."""
        return {
            name: memory[place.offset : place.offset + place.n_bytes].view(place.dtype).view(place.shape)
            for name, place in self.places.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardMemory:
    """What a forward writes beside its results: ``saved`` for a backward, ``scratch`` for itself."""

    scratch: Workspace
    saved: Workspace


def plan_forward(kernels: ForwardKernels, sizes: Mapping[str, int], save: Save | None = None) -> ForwardMemory:
    """The memory of a forward for the run-time dims ``sizes``; without ``save`` nothing is saved."""
    written = [x for x in _written(kernels.in_order(), RESULTS) if x.name not in kernels.left_out]
    kept = frozenset[str]() if save is None else SAVED[save]
    return ForwardMemory(
        scratch=_laid_out([x for x in written if x.name not in kept], sizes),
        saved=_laid_out([x for x in written if x.name in kept], sizes),
    )


def plan_backward(kernels: BackwardKernels, sizes: Mapping[str, int], results: Container[str]) -> Workspace:
    """What the stages of a backward hand to one another, all but what they write for the caller, ``results``."""
    return _laid_out(_written(kernels.in_order(), results), sizes)


def _written(kernels: Sequence[KernelEntry], results: Container[str]) -> list[ArgumentEntry]:
    """What ``kernels`` write but the results."""
    arguments = [argument for entry in kernels for argument in entry.arguments]
    return [x for x in arguments if x.access == "out" and x.name not in results]


def _laid_out(arguments: Sequence[ArgumentEntry], sizes: Mapping[str, int]) -> Workspace:
    """One after the other. Window tables, gates and steps that kernels make are there under both of their names."""
    places, end = {}, 0
    for argument in arguments:
        shape = tuple(extent if isinstance(extent, int) else sizes[extent] for extent in argument.shape)
        place = Place(dtype=TORCH_DTYPES[argument.dtype], shape=shape, offset=end)
        places[argument.name] = place
        end += -(-place.n_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    both = {read: places[name] for read, name in {**TABLE_NAMES, **MADE_NAMES}.items() if name in places}
    return Workspace(places={**places, **both}, n_bytes=end)


def workspace_bytes(
    *,
    n_tokens: int,
    n_sequences: int = 1,
    key_heads: int,
    value_heads: int,
    head_dim: int = 128,
    dtype: torch.dtype = torch.bfloat16,
    n_chunks: int | None = None,
    host_lengths: bool = True,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
) -> int:
    """Bytes that ``chunk_gated_delta_rule`` allocates for a call beside its results.

    ``n_tokens`` counts slack tokens and all batch rows; ``dtype`` is that of q, k and v. ``n_chunks``, chunks of
    64 tokens or less, defaults to the most that ``n_sequences`` sequences of so many tokens can have.
    ``host_lengths`` is False where only the GPU knows the lengths: then window tables count, and ``n_chunks`` is that
    most. The flags are those of the call. Not counted: window tables that a plan keeps (8 bytes a chunk and a
    sequence), and copies of inputs whose strides a kernel cannot read. Raises TypeError and ValueError as a call does.
    """
    check_asked(
        n_tokens=n_tokens, n_sequences=n_sequences, key_heads=key_heads, value_heads=value_heads, head_dim=head_dim,
        dtype=dtype, n_chunks=n_chunks, host_lengths=host_lengths, use_gate_in_kernel=use_gate_in_kernel,
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
    )  # fmt: skip
    shape = CallShape(
        n_sequences=n_sequences,
        value_heads=value_heads,
        head_dim=head_dim,
        activation=dtype,
        step=torch.float32,
        offsets=None if host_lengths else torch.int32,
        raw_gate=dtype if use_gate_in_kernel else None,
        raw_step=dtype if use_beta_sigmoid_in_kernel else None,
    )
    sizes = dims(
        n_tokens=n_tokens,
        n_sequences=n_sequences,
        n_chunks=counted_chunks(n_tokens, n_sequences, n_chunks if host_lengths else None),
        key_heads=key_heads,
        value_heads=value_heads,
    )
    return plan_forward(select(any_registry(), shape), sizes).scratch.n_bytes


def counted_chunks(n_tokens: int, n_sequences: int, n_chunks: int | None) -> int:
    """``n_chunks``, or where they are not known the most that there can be."""
    return most_chunks(n_tokens, n_sequences, CHUNK) if n_chunks is None else n_chunks
