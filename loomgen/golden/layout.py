"""How a batch lies in memory: packed ragged tokens, heads, chunks and states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Tokens ``start`` .. ``end - 1`` of sequence ``sequence``; at most the chunk size of them, at least one."""

    sequence: int
    start: int
    end: int

    @property
    def tokens(self) -> slice:
        return slice(self.start, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One call's inputs in the packed layout and one dtype, without slack tokens.

    ``q``, ``k`` [T, H, K]; ``v`` [T, HV, V]; ``g`` (natural log of the decay) and ``beta`` [T, HV]; ``state``
    [N, HV, V, K]; sequence n holds tokens ``bounds[n]`` .. ``bounds[n+1] - 1``. The caller's output has ``o_shape``.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    beta: Tensor
    state: Tensor
    bounds: tuple[int, ...]
    o_shape: torch.Size
    scale: float

    def output(self, pieces: Sequence[Tensor]) -> Tensor:
        """``pieces`` of a token tensor [.., heads, ..], in token order, as the caller lays tokens out, zeros for slack
        tokens; no piece at all: that of o."""
        tokens = self.o_shape[:-2]
        of_token = pieces[0].shape[1:] if pieces else self.o_shape[-2:]
        return join(pieces, (tokens.numel(), *of_token), self.v.dtype).reshape(*tokens, *of_token)


def sequence_bounds(cu_seqlens: Tensor | Sequence[int], n_tokens: int) -> tuple[int, ...]:
    """Checked offsets of the sequences in a pack of ``n_tokens`` tokens; tokens past the last one are slack.

    Raises ValueError unless they start at 0, never decrease and end within the pack.
    """
    bounds = tuple(int(b) for b in cu_seqlens)
    if not bounds or bounds[0] != 0:
        raise ValueError(f"cu_seqlens {bounds}: want at least one offset, the first 0")
    if any(end < begin for begin, end in pairwise(bounds)):
        raise ValueError(f"cu_seqlens {bounds}: want offsets that never decrease")
    if bounds[-1] > n_tokens:
        raise ValueError(f"cu_seqlens {bounds}: the last offset lies past the {n_tokens} tokens of the pack")
    return bounds


def chunks(bounds: Sequence[int], chunk: int) -> tuple[Chunk, ...]:
    """The chunks of every sequence, in token order; an empty sequence has none, the last of one may be short."""
    return tuple(
        Chunk(sequence=n, start=start, end=min(start + chunk, end))
        for n, (begin, end) in enumerate(pairwise(bounds))
        for start in range(begin, end, chunk)
    )


def join(pieces: Sequence[Tensor], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """``pieces`` laid end to end along the first axis of a tensor of ``shape``, zeros after them."""
    n_rows = sum(piece.shape[0] for piece in pieces)
    return torch.cat([*pieces, torch.zeros(shape[0] - n_rows, *shape[1:], dtype=dtype)])


def per_value_head(x: Tensor, n_value_heads: int) -> Tensor:
    """``x`` [T, H, K] with each key head repeated for its value heads: [T, HV, K]."""
    return x.repeat_interleave(n_value_heads // x.shape[1], dim=1)


def l2_normalise(x: Tensor) -> Tensor:
    """``x`` divided by its length along the last axis."""
    return x * reciprocal_length(x)


def reciprocal_length(x: Tensor) -> Tensor:
    """1 over the length of ``x`` along the last axis, which stays; 1e-6 is added to the squared length."""
    return torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def batch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    beta: Tensor,
    *,
    scale: float | None,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
    state_v_first: bool,
    dtype: torch.dtype,
) -> Batch:
    """Inputs as the caller holds them, brought into the packed layout (see ``recurrent_gated_delta_rule``)."""
    _check_shapes(q, k, v, g, beta, cu_seqlens)
    n_tokens = v.shape[:-2].numel()
    bounds = _bounds(v, cu_seqlens, n_tokens)
    n_batch_axes = v.ndim - 2
    zeros = torch.zeros(len(bounds) - 1, v.shape[-2], v.shape[-1], k.shape[-1], dtype=dtype)

    def packed(x: Tensor) -> Tensor:
        return x.to(dtype).reshape(n_tokens, *x.shape[n_batch_axes:])[: bounds[-1]]

    return Batch(
        q=packed(q),
        k=packed(k),
        v=packed(v),
        g=packed(torch.zeros_like(beta) if g is None else g),
        beta=packed(beta),
        state=states_v_first("initial_state", initial_state, zeros, state_v_first),
        bounds=bounds,
        o_shape=v.shape,
        scale=k.shape[-1] ** -0.5 if scale is None else scale,
    )


def _check_shapes(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor, cu_seqlens: Tensor | None) -> None:
    if v.ndim not in (3, 4):
        raise ValueError(f"v has shape {tuple(v.shape)}: want [T, HV, V] or [B, T, HV, V]")
    if q.shape != k.shape or q.shape[:-2] != v.shape[:-2]:
        raise ValueError(
            f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}: want one shape but for heads of v"
        )
    if v.shape[-2] % q.shape[-2]:
        raise ValueError(f"{v.shape[-2]} value heads: want a multiple of the {q.shape[-2]} key heads")
    for name, x in (("g", g), ("beta", beta)):
        if x is not None and x.shape != v.shape[:-1]:
            raise ValueError(f"{name} has shape {tuple(x.shape)}: want {tuple(v.shape[:-1])}")
    if cu_seqlens is not None and v.ndim == 4 and v.shape[0] != 1:
        raise ValueError(f"batch size {v.shape[0]}: want 1 with cu_seqlens")


def _bounds(v: Tensor, cu_seqlens: Tensor | None, n_tokens: int) -> tuple[int, ...]:
    if cu_seqlens is not None:
        return sequence_bounds(cu_seqlens, n_tokens)
    n_sequences = v.shape[0] if v.ndim == 4 else 1
    length = v.shape[-3]
    return tuple(n * length for n in range(n_sequences + 1))


def states_v_first(name: str, given: Tensor | None, like: Tensor, state_v_first: bool) -> Tensor:
    """States as they are kept, [N, HV, V, K] and of the dtype of ``like``, from the caller's layout; None is zeros.

    Raises ValueError, with the argument's ``name``, unless they then have the shape of ``like``.
    """
    if given is None:
        return torch.zeros_like(like)
    states = given.to(like.dtype) if state_v_first else given.to(like.dtype).transpose(-1, -2)
    if states.shape != like.shape:
        want = like.shape if state_v_first else like.mT.shape
        raise ValueError(f"{name} has shape {tuple(given.shape)}: want {tuple(want)}")
    return states
