"""Where the sequences of a call lie, checked."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from loomgen.ops.arguments import Arguments
from loomgen.ops.dispatch import CHUNK

_INTEGERS = (torch.int32, torch.int64)
_SHOWN = 8
"""Offsets that a message quotes."""


def sequence_lengths(arguments: Arguments) -> tuple[int, ...]:
    """The length of each sequence: B times T without ``cu_seqlens``.

    Raises TypeError and ValueError for offsets of a wrong rank, dtype or order, or past the end; for a host copy or
    chunk table that says something else.
    """
    n_batch, n_steps = arguments.q.shape[:2]
    if arguments.cu_seqlens is None:
        _refuse_without_offsets(arguments)
        return (n_steps,) * n_batch
    _check_batch(n_batch)
    offsets = _checked_offsets("cu_seqlens", arguments.cu_seqlens, n_steps)
    lengths = tuple(end - begin for begin, end in pairwise(offsets))
    _check_host_copy(arguments.cu_seqlens_cpu, offsets)
    _check_chunk_indices(arguments.chunk_indices, lengths)
    return lengths


def lengths_on_host(arguments: Arguments, offsets: Tensor | None) -> tuple[int, ...]:
    """The same where nothing on a GPU may be looked at: ``offsets``, on the CPU, are believed to be ``cu_seqlens``.

    ``cu_seqlens`` and ``chunk_indices`` are held to their dtype and shape, ``offsets`` to everything.
    """
    n_batch, n_steps = arguments.q.shape[:2]
    if arguments.cu_seqlens is None or offsets is None:
        _refuse_without_offsets(arguments)
        return (n_steps,) * n_batch
    _check_batch(n_batch)
    check_vector("cu_seqlens", arguments.cu_seqlens)
    name = "cu_seqlens" if arguments.cu_seqlens_cpu is None else "cu_seqlens_cpu"
    found = _checked_offsets(name, offsets, n_steps)
    if len(found) != len(arguments.cu_seqlens):
        raise ValueError(
            f"cu_seqlens_cpu: {len(found)} offsets, expected the {len(arguments.cu_seqlens)} of cu_seqlens"
        )
    lengths = tuple(end - begin for begin, end in pairwise(found))
    if arguments.chunk_indices is not None:
        _check_table(arguments.chunk_indices, sum(-(-length // CHUNK) for length in lengths))
    return lengths


def only_gpu_knows(cu_seqlens: Tensor | None, offsets: Tensor | None) -> bool:
    """Whether nothing on the host says how long the sequences are; ``offsets`` are those of ``cu_seqlens`` on it."""
    return cu_seqlens is not None and offsets is None


def sequences_on_device(arguments: Arguments) -> int:
    """How many sequences there are where only the GPU knows their lengths; dtypes and shapes are checked."""
    offsets, indices = arguments.cu_seqlens, arguments.chunk_indices
    assert offsets is not None
    _check_batch(arguments.q.shape[0])
    check_vector("cu_seqlens", offsets)
    if len(offsets) < 2:
        raise _no_sequence("cu_seqlens", len(offsets))
    if indices is not None:
        _check_table(indices, indices.shape[0] if indices.dim() else 0)
    return len(offsets) - 1


def _check_batch(n_batch: int) -> None:
    if n_batch != 1:
        raise ValueError(f"q: batch size {n_batch}, expected 1 with cu_seqlens")


def _refuse_without_offsets(arguments: Arguments) -> None:
    for name in arguments.offsets():
        raise ValueError(f"{name}: given, expected None without cu_seqlens")


def _checked_offsets(name: str, values: Tensor, n_steps: int) -> list[int]:
    check_vector(name, values)
    offsets: list[int] = values.tolist()
    if len(offsets) < 2:
        raise _no_sequence(name, len(offsets))
    if offsets[0] != 0:
        raise ValueError(f"{name}: starts at {offsets[0]}, expected 0")
    for n, (begin, end) in enumerate(pairwise(offsets)):
        if end < begin:
            raise ValueError(f"{name}: {begin} then {end} at {n + 1}, expected offsets that never decrease")
    if offsets[-1] > n_steps:
        raise ValueError(f"{name}: ends at {offsets[-1]}, expected at most the {n_steps} tokens of q")
    return offsets


def _no_sequence(name: str, n_offsets: int) -> ValueError:
    found = "1 offset" if n_offsets == 1 else f"{n_offsets} offsets"
    return ValueError(f"{name}: {found}, expected N + 1 of them for N sequences, at least one")


def check_vector(name: str, x: Tensor) -> None:
    """One dimension of i32 or i64."""
    if x.dtype not in _INTEGERS:
        raise TypeError(f"{name}: {x.dtype}, expected {' or '.join(map(str, _INTEGERS))}")
    if x.dim() != 1:
        raise ValueError(f"{name}: shape {list(x.shape)}, expected 1 dim, [N + 1]")


def _check_host_copy(host: Tensor | None, offsets: list[int]) -> None:
    if host is None:
        return
    check_vector("cu_seqlens_cpu", host)
    if host.tolist() != offsets:
        raise ValueError(f"cu_seqlens_cpu: {_quoted(host.tolist())}, expected cu_seqlens, {_quoted(offsets)}")


def _check_chunk_indices(indices: Tensor | None, lengths: tuple[int, ...]) -> None:
    """The table of (sequence, chunk in it) that a caller may have at hand; it must be that of ``cu_seqlens``."""
    if indices is None:
        return
    expected = [[n, c] for n, length in enumerate(lengths) for c in range(-(-length // CHUNK))]
    _check_table(indices, len(expected))
    for row, (found, wanted) in enumerate(zip(indices.tolist(), expected, strict=True)):
        if found != wanted:
            raise ValueError(f"chunk_indices: {found} at {row}, expected {wanted}, the sequence and its chunk")


def _check_table(indices: Tensor, n_chunks: int) -> None:
    if indices.dtype not in _INTEGERS:
        raise TypeError(f"chunk_indices: {indices.dtype}, expected {' or '.join(map(str, _INTEGERS))}")
    if tuple(indices.shape) != (n_chunks, 2):
        raise ValueError(f"chunk_indices: shape {list(indices.shape)}, expected {[n_chunks, 2]}")


def _quoted(values: list[int]) -> str:
    return str(values) if len(values) <= _SHOWN else f"[{', '.join(map(str, values[:_SHOWN]))}, ...]"
