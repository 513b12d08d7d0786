"""What operators are verified with: shapes, dtypes and flags, and random tensors of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from loomgen.verify.problem import LOWEST_GATE

Gates = Literal["usual", "strong", "zero", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCase:
    """One call. ``heads``: key heads, value heads. ``packed``: with ``cu_seqlens``, else a batch of equal lengths.

    ``gates``: ``usual`` is logsigmoid/16, ``strong`` has :data:`LOWEST_GATE` for one token in four, ``none`` passes
    None. ``raw_gates``: the dtype of normal ones, of which the operator makes its gates, with ``bias``; ``raw_steps``:
    that of steps of which it takes the sigmoid, twice that with ``negative``. Without ``normalise`` queries and keys
    have length 1 already. ``views``: q, k and v lie in one buffer, gates and steps heads first, the state with gaps.
    ``slack`` tokens of NaN follow the last sequence.
    """

    name: str
    lengths: tuple[int, ...]
    heads: tuple[int, int] = (1, 2)
    head_dim: int = 128
    dtype: torch.dtype = torch.bfloat16
    step: torch.dtype = torch.float32
    gates: Gates = "usual"
    raw_gates: torch.dtype | None = None
    bias: bool = True
    raw_steps: torch.dtype | None = None
    negative: bool = False
    packed: bool = True
    normalise: bool = True
    initial_state: bool = True
    state_v_first: bool = False
    views: bool = False
    slack: int = 0

    @property
    def is_lasting(self) -> bool:
        """Whether an early error may stay: without decay, turned round by negative eigenvalues, or through keys as
        long as they come."""
        return self.gates in ("zero", "none") or self.negative or not self.normalise

    @property
    def raw_flags(self) -> dict[str, bool]:
        """The operator's flags for raw gates and steps."""
        return {
            "use_gate_in_kernel": self.raw_gates is not None,
            "use_beta_sigmoid_in_kernel": self.raw_steps is not None,
            "allow_neg_eigval": self.negative,
        }


CASES = (
    OpCase(name="ragged", lengths=(0, 15, 64, 65, 200), heads=(2, 4)),
    OpCase(name="one-token documents", lengths=(1,) * 5),
    OpCase(name="long tail", lengths=(1, 130, 3, 64, 65, 0, 127), heads=(1, 1)),
    OpCase(name="batch, 1 value head a key head", lengths=(70, 70), heads=(2, 2), packed=False),
    OpCase(name="3 value heads a key head", lengths=(65, 9), heads=(1, 3)),
    OpCase(name="4 value heads a key head", lengths=(66,), heads=(1, 4), packed=False),
    OpCase(name="8 value heads a key head", lengths=(40,), heads=(1, 8)),
    OpCase(name="unit-norm keys, norm off", lengths=(15, 130), normalise=False),
    OpCase(name="no initial state", lengths=(64, 0, 65), initial_state=False),
    OpCase(name="g = 0", lengths=(15, 130), gates="zero"),
    OpCase(name="g = 0, norm off", lengths=(192,), gates="zero", normalise=False, initial_state=False),
    OpCase(name="g = None", lengths=(65, 15), gates="none"),
    OpCase(name="g down to -316", lengths=(64, 100), gates="strong"),
    OpCase(name="f16", lengths=(15, 65), dtype=torch.float16),
    OpCase(name="bf16 beta, state V first", lengths=(15, 65), step=torch.bfloat16, state_v_first=True),
    OpCase(name="head dim 64", lengths=(0, 15, 64, 65, 200), head_dim=64),
    OpCase(name="head dim 64, f16, bf16 beta", lengths=(129,), head_dim=64, dtype=torch.float16, step=torch.bfloat16),
    OpCase(name="views", lengths=(15, 65), views=True),
    OpCase(name="NaN in slack tokens", lengths=(65, 15), slack=7),
    OpCase(name="raw gates", lengths=(0, 15, 65), raw_gates=torch.bfloat16),
    OpCase(name="raw gates, fp32, no bias", lengths=(66,), raw_gates=torch.float32, bias=False, packed=False),
    OpCase(name="raw steps", lengths=(15, 65), raw_steps=torch.bfloat16),
    OpCase(name="negative eigenvalues", lengths=(65, 9), heads=(1, 3), raw_steps=torch.float32, negative=True),
    OpCase(name="raw gates and steps, views", lengths=(15, 65), raw_gates=torch.float16, raw_steps=torch.bfloat16,
           negative=True, views=True, slack=3),
)  # fmt: skip
"""What ``chunk_gated_delta_rule`` is checked with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpInputs:
    """The tensors of a call, as a caller would hold them."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor | None
    beta: Tensor
    initial_state: Tensor | None
    cu_seqlens: Tensor | None
    A_log: Tensor | None = None
    dt_bias: Tensor | None = None


def op_inputs(case: OpCase, seed: int) -> OpInputs:
    """Independent normal queries, keys and values; sigmoid steps, normal ones where they are raw."""
    gen = torch.Generator().manual_seed(seed)
    (h, hv), dim, n_tokens = case.heads, case.head_dim, sum(case.lengths)
    q, k, v = (torch.randn(n_tokens, n, dim, generator=gen) for n in (h, h, hv))
    if not case.normalise:
        q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    state = torch.randn(len(case.lengths), hv, dim, dim, generator=gen) / 4
    g = _gates(case, torch.randn(n_tokens, hv, generator=gen), gen)
    noise = torch.randn(n_tokens, hv, generator=gen)
    beta = noise.sigmoid().to(case.step) if case.raw_steps is None else noise.to(case.raw_steps)
    tokens = [with_slack(x, case.slack) for x in (q.to(case.dtype), k.to(case.dtype), v.to(case.dtype), g, beta)]
    if case.views:
        tokens, state = _views(tokens), _with_gaps(state)
    n_rows = 1 if case.packed else len(case.lengths)
    q, k, v, g, beta = (x.view(n_rows, x.shape[0] // n_rows, *x.shape[1:]) for x in tokens)
    return OpInputs(
        q=q,
        k=k,
        v=v,
        g=None if case.gates == "none" else g,
        beta=beta,
        initial_state=state if case.initial_state else None,
        cu_seqlens=torch.tensor([0, *accumulate(case.lengths)]) if case.packed else None,
        A_log=None if case.raw_gates is None else torch.randn(hv, generator=gen) / 2,
        dt_bias=torch.randn(hv, generator=gen) - 3 if case.raw_gates is not None and case.bias else None,
    )


def _gates(case: OpCase, noise: Tensor, gen: torch.Generator) -> Tensor:
    if case.raw_gates is not None:
        return noise.to(case.raw_gates)
    if case.gates in ("zero", "none"):
        return torch.zeros_like(noise)
    g = torch.nn.functional.logsigmoid(noise) / 16
    if case.gates == "strong":
        g[torch.rand(g.shape, generator=gen) < 1 / 4] = LOWEST_GATE
    return g


def with_slack(x: Tensor, n_tokens: int) -> Tensor:
    """``x`` [T, ..] with ``n_tokens`` rows of NaN after it."""
    return torch.cat([x, x.new_full((n_tokens, *x.shape[1:]), float("nan"))])


def _views(tokens: list[Tensor]) -> list[Tensor]:
    """The same values: q, k and v side by side in one buffer, gates and steps one head after the other."""
    q, k, v, g, beta = tokens
    buffer = torch.cat([q, k, v], dim=1)
    parts = torch.tensor_split(buffer, (q.shape[1], q.shape[1] + k.shape[1]), dim=1)
    return [*parts, g.T.contiguous().T, beta.T.contiguous().T]


def _with_gaps(state: Tensor) -> Tensor:
    """The same values, eight elements apart from row to row."""
    return torch.nn.functional.pad(state, (0, 8), value=float("nan"))[..., :-8]
