"""Random inputs of the forward pass, with the float64 tensors that every stage is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from loomgen import golden
from loomgen.errors import LoomgenError
from loomgen.runtime.tables import window_tables

Inputs = Mapping[str, Tensor | int | float | bool | None]
"""What a stage is given, by name: tensors, window tables and scalars."""

CHUNK = golden.CHUNK
EPS = 1e-6
"""Added to a squared norm before its root, as in the golden."""

_KEPT_WIDE = ("G", "beta", "ht")
_TABLES = ("seq_chunks", "starts", "lengths")
LOWEST_GATE = -316.0
"""A decay so strong that its exponential underflows in every format: one token in sixteen has it."""


_HEAD_DIM = 128
_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """What kernels that work on one another's tensors have in common: K = V = ``head_dim``, the dtypes of activations
    and of the steps that come in."""

    head_dim: int = _HEAD_DIM
    activations: torch.dtype = torch.bfloat16
    steps: torch.dtype = torch.float32

    @classmethod
    def of(cls, kernel: str, dims: Mapping[str, int], dtypes: Mapping[str, str]) -> Formats:
        """The formats of a kernel with these static dims and tensors' dtypes; unnamed steps are fp32.

        Raises LoomgenError where K and V differ: the stages' states would not be square.
        """
        head_dim = dims.get("K", _HEAD_DIM)
        if dims.get("V", head_dim) != head_dim:
            raise LoomgenError(f"{kernel}: K = {head_dim}, V = {dims['V']}: there are no random inputs for two sizes")
        activations, steps = dtypes.get("kn", "bf16"), dtypes.get("step", "f32")
        return cls(head_dim=head_dim, activations=_DTYPES[activations], steps=_DTYPES[steps])


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """``given``: what the stages read, in their dtypes, tables and scalars included. ``expected``: float64, by tensor
    name.

    ``outputs`` are the dtypes and shapes of the tensors that stages write.
    """

    given: dict[str, Tensor | int | float | bool | None]
    expected: dict[str, Tensor]
    outputs: dict[str, tuple[torch.dtype, tuple[int, ...]]]

    def rounded(self) -> dict[str, Tensor]:
        """The expected tensors in the dtypes in which stages write them."""
        return {name: tensor.to(self.outputs[name][0]) for name, tensor in self.expected.items()}

    def fresh(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Tensors for a stage to write, NaN, or -1 in tables, where it does not."""
        return {name: _unwritten(*self.outputs[name]) for name in names}


def _unwritten(dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    return torch.full(shape, float("nan") if dtype.is_floating_point else -1, dtype=dtype)


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal bit for bit, NaN payloads and signs of zeros included; both of one 2- or 4-byte dtype."""
    word = torch.int16 if a.element_size() == 2 else torch.int32
    return torch.equal(a.view(word), b.view(word))


def make_problem(
    seqlens: Sequence[int],
    heads: tuple[int, int],
    seed: int,
    *,
    formats: Formats = Formats(),
    initial_state: bool = True,
) -> Problem:
    """Independent normal keys, queries and values; logsigmoid/16 gates, some at :data:`LOWEST_GATE`; sigmoid steps."""
    gen = torch.Generator().manual_seed(seed)
    n_tokens, (h, hv), head_dim = sum(seqlens), heads, formats.head_dim

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=gen, dtype=torch.float32)

    q, k, v = (normal(n_tokens, n, head_dim).to(formats.activations) for n in (h, h, hv))
    g = torch.nn.functional.logsigmoid(normal(n_tokens, hv)) / 16
    g[torch.rand(n_tokens, hv, generator=gen) < 1 / 16] = LOWEST_GATE
    step = normal(n_tokens, hv).sigmoid().to(formats.steps)
    h0 = normal(len(seqlens), hv, head_dim, head_dim) / 4 if initial_state else None
    tables = window_tables(seqlens, CHUNK)
    cu_seqlens, scale = tables.cu_seqlens, head_dim**-0.5
    exact = golden.prep(q.double(), k.double(), g.double(), cu_seqlens)
    given = {
        "q": q,
        "k": k,
        "v": v,
        "gate": g,
        "step": step,
        "h0": h0,
        "normalise": True,
        "eps": EPS,
        "scale": scale,
        "offsets": cu_seqlens,
        **tables.by_name(),
    }
    expected = _expected(exact, v.double(), step.double(), None if h0 is None else h0.double(), cu_seqlens, scale)
    chunks = (tables.seq_chunk_start, tables.chunk_start, tables.chunk_len)
    expected |= {name: table.double() for name, table in zip(_TABLES, chunks, strict=True)}
    outputs = {name: (_dtype_of(name, formats), tuple(tensor.shape)) for name, tensor in expected.items()}
    return Problem(given=given, expected=expected, outputs=outputs)


def _dtype_of(name: str, formats: Formats) -> torch.dtype:
    if name in _TABLES:
        return torch.int32
    return torch.float32 if name in _KEPT_WIDE else formats.activations


def _expected(
    exact: golden.Prepared, v: Tensor, beta: Tensor, h0: Tensor | None, cu_seqlens: Tensor, scale: float
) -> dict[str, Tensor]:
    inverse = golden.wy(exact.kn, v, exact.G, beta, cu_seqlens)
    scan = golden.fwd_h(exact.kn, inverse.w, inverse.u, exact.G, h0, cu_seqlens)
    o = golden.fwd_o(exact.qn, exact.kn, scan.v_new, scan.h, exact.G, cu_seqlens, scale=scale)
    return {
        "qn": exact.qn,
        "kn": exact.kn,
        "G": exact.G,
        "beta": beta,
        "A": inverse.A,
        "u": inverse.u,
        "w": inverse.w,
        "h": scan.h,
        "v_new": scan.v_new,
        "ht": scan.final_state,
        "o": o,
    }
