"""Random inputs of the forward and the backward pass, with the float64 tensors that every stage is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from loomgen import golden
from loomgen.errors import LoomgenError
from loomgen.ops.dispatch import TABLE_NAMES
from loomgen.runtime.dtypes import TORCH_DTYPES
from loomgen.runtime.tables import WindowTables, window_tables
from loomgen.verify.raw import raw_inputs

Inputs = Mapping[str, Tensor | int | float | bool | None]
"""What a stage is given, by name: tensors, window tables and scalars."""

CHUNK = golden.CHUNK
EPS = 1e-6
"""Added to a squared norm before its root, as in the golden."""

_KEPT_WIDE = (
    "made_gate", "made_step", "G", "beta", "ht", "q_rstd", "k_rstd",
    "dA_log_parts", "ddt_bias_parts", "dA_log", "ddt_bias", "dh0", "dg", "dbeta",
)  # fmt: skip
_SLACK = 70
"""Rows past the last token in the tensor that `slack` writes."""
LOWEST_GATE = -316.0
"""A decay so strong that its exponential underflows in every format: one token in sixteen has it."""

_HEAD_DIM = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """What kernels that work on one another's tensors have in common: K = V = ``head_dim``, the dtypes of activations,
    of the steps that come in, of offsets, and of raw gates and steps and their gradients."""

    head_dim: int = _HEAD_DIM
    activations: torch.dtype = torch.bfloat16
    steps: torch.dtype = torch.float32
    offsets: torch.dtype = torch.int32
    raw_gates: torch.dtype = torch.bfloat16
    raw_steps: torch.dtype = torch.bfloat16

    @classmethod
    def of(cls, kernel: str, dims: Mapping[str, int], dtypes: Mapping[str, str]) -> Formats:
        """The formats of a kernel with these static dims and tensors' dtypes; unnamed steps are fp32.

        Raises LoomgenError where K and V differ: the stages' states would not be square.
        """
        head_dim = dims.get("K", dims.get("V", _HEAD_DIM))
        if dims.get("V", head_dim) != head_dim:
            raise LoomgenError(f"{kernel}: K = {head_dim}, V = {dims['V']}: there are no random inputs for two sizes")
        activations = dtypes.get("kn", dtypes.get("tail", "bf16"))
        steps, offsets = dtypes.get("step", "f32"), dtypes.get("offsets", "i32")
        raw_gates, raw_steps = dtypes.get("a", "bf16"), dtypes.get("b", "bf16")
        return cls(
            head_dim=head_dim,
            activations=TORCH_DTYPES[activations],
            steps=TORCH_DTYPES[steps],
            offsets=TORCH_DTYPES[offsets],
            raw_gates=TORCH_DTYPES[raw_gates],
            raw_steps=TORCH_DTYPES[raw_steps],
        )


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


def make_problem(
    seqlens: Sequence[int],
    heads: tuple[int, int],
    seed: int,
    *,
    formats: Formats = Formats(),
    initial_state: bool = True,
) -> Problem:
    """Independent normal keys, queries and values; gates near logsigmoid/16, some near :data:`LOWEST_GATE`, and steps
    near a sigmoid, of raw ones in their dtypes.
    """
    gen = torch.Generator().manual_seed(seed)
    n_tokens, (h, hv), head_dim = sum(seqlens), heads, formats.head_dim

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=gen, dtype=torch.float32)

    q, k, v = (normal(n_tokens, n, head_dim).to(formats.activations) for n in (h, h, hv))
    g = torch.nn.functional.logsigmoid(normal(n_tokens, hv)) / 16
    g[torch.rand(n_tokens, hv, generator=gen) < 1 / 16] = LOWEST_GATE
    beta = normal(n_tokens, hv).sigmoid()
    h0 = normal(len(seqlens), hv, head_dim, head_dim) / 4 if initial_state else None
    do = normal(n_tokens, hv, head_dim).to(formats.activations)
    dht = normal(len(seqlens), hv, head_dim, head_dim) / 4
    raw = raw_inputs(g, beta, formats.raw_gates, formats.raw_steps, gen)
    gate, step = raw.gate().float(), raw.step().to(formats.steps)
    tables = window_tables(seqlens, CHUNK)
    cu_seqlens, scale = tables.cu_seqlens, head_dim**-0.5
    given = {
        "q": q, "k": k, "v": v, "gate": gate, "step": step, "h0": h0, "do": do, "dht": dht,
        "normalise": True, "eps": EPS, "scale": scale,
        **raw.given(),
        **_given_to_meta(n_tokens, tables, formats.offsets),
        **tables.by_name(),
    }  # fmt: skip
    expected = raw.expected(cu_seqlens) | _expected(given, cu_seqlens, scale)
    expected |= {TABLE_NAMES[name]: table.double() for name, table in tables.by_name().items()}
    expected["tail"] = _tail(expected["o"])
    outputs = {name: (_dtype_of(name, formats), tuple(tensor.shape)) for name, tensor in expected.items()}
    return Problem(given=given, expected=expected, outputs=outputs)


def _given_to_meta(n_tokens: int, tables: WindowTables, offsets: torch.dtype) -> dict[str, Tensor | int]:
    """What `meta` reads, and the dims of it and of `slack` that are those of no tensor."""
    return {
        "offsets": tables.cu_seqlens.to(offsets),
        "T": n_tokens,
        "NS": max(1, -(-len(tables.chunk_len) // len(tables.cu_seqlens))),
        "NR": -(-(n_tokens + _SLACK) // CHUNK),
    }


def _tail(x: Tensor) -> Tensor:
    """Rows of tokens, which stay as they are, and zeros in the slack."""
    return torch.cat([torch.full_like(x, float("nan")), x.new_zeros(_SLACK, *x.shape[1:])])


def _dtype_of(name: str, formats: Formats) -> torch.dtype:
    if name in TABLE_NAMES.values():
        return torch.int32
    if name in _KEPT_WIDE:
        return torch.float32
    special = {"da": formats.raw_gates, "db": formats.raw_steps}
    return special.get(name, formats.activations)


def _expected(given: Inputs, cu_seqlens: Tensor, scale: float) -> dict[str, Tensor]:
    """What the stages write, in float64."""
    q, k, v, gate, step, do, dht = (_wide(given, name) for name in ("q", "k", "v", "gate", "step", "do", "dht"))
    h0 = None if given["h0"] is None else _wide(given, "h0")
    found = golden.composed(q, k, v, gate, step, do, h0, dht, cu_seqlens, scale=scale)
    exact, scan = found.prepared, found.scanned
    return {
        **{name: x for name, x in exact._asdict().items() if x is not None},
        "A": found.A,
        **golden.wy_recompute(exact.kn, v, exact.G, exact.beta, found.A, cu_seqlens)._asdict(),
        "h": scan.h,
        "v_new": scan.v_new,
        "ht": scan.final_state,
        "o": golden.fwd_o(exact.qn, exact.kn, scan.v_new, scan.h, exact.G, cu_seqlens, scale=scale),
        "dn": found.dn,
        **found.reverse._asdict(),
        **found.gradients._asdict(),
    }


def _wide(given: Inputs, name: str) -> Tensor:
    x = given[name]
    assert isinstance(x, Tensor)
    return x.double()
