"""The operator's forward and backward, composed of what its stages mean in float64; head dim 64, nothing rounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from loomgen.cli.project import Project
from loomgen.interp import interpret
from loomgen.ir.expr import Access
from loomgen.ir.tile import Program
from loomgen.ops.dispatch import STAGES
from loomgen.ops.dispatch_backward import STAGES as BACKWARD_STAGES
from loomgen.registry.tables import WINDOW_TABLES
from loomgen.runtime.tables import window_tables
from loomgen.verify.problem import CHUNK, EPS, Inputs
from tests.verify.committed import ROOT

HEAD_DIM = 64
SCALE = HEAD_DIM**-0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Calls of one shape: sequences of ``lengths``, key heads and value heads."""

    lengths: tuple[int, ...]
    heads: tuple[int, int]
    normalise: bool = True

    def forward(self, inputs: Mapping[str, Tensor]) -> Inputs:
        """``o``, ``ht`` and what they are made of, of q, k, v, g, beta and h0, by the stages' names."""
        tables = window_tables(self.lengths, CHUNK).by_name()
        (h, hv), n_chunks = self.heads, len(tables["chunk_len"])
        sizes = {"T": sum(self.lengths), "N": len(self.lengths), "NC": n_chunks, "H": h, "HV": hv}
        scalars = {"normalise": self.normalise, "eps": EPS, "scale": SCALE}
        named = {"gate": inputs["g"], "step": inputs["beta"], **{name: inputs[name] for name in ("q", "k", "v", "h0")}}
        return self._run(STAGES, {**tables, **sizes, **scalars, **named})

    def backward(self, forward: Inputs, do: Tensor, dht: Tensor) -> dict[str, Tensor]:
        """The gradients of the inputs of ``forward``, by their names."""
        done = self._run(BACKWARD_STAGES, {**forward, "do": do, "dht": dht})
        found = {name: done[f"d{name}"] for name in ("q", "k", "v", "g", "beta", "h0")}
        return {name: x for name, x in found.items() if isinstance(x, Tensor)}

    def _run(self, stages: Sequence[str], given: Inputs) -> Inputs:
        known = dict(given)
        for stage in stages:
            program = programs()[stage]
            outputs = {tensor.name: tensor.shape for tensor in program.tensors if tensor.access is Access.OUT}
            for name, shape in outputs.items():
                known[name] = self._unwritten(name, shape, known)
            names = {tensor.name for tensor in program.tensors} | {*WINDOW_TABLES, *program.runtime_dims}
            names |= {scalar.name for scalar in program.scalars}
            interpret(program, {name: value for name, value in known.items() if name in names}, mode="float64")
        return known

    def _unwritten(self, name: str, shape: Sequence[int | str], known: Inputs) -> Tensor | None:
        if name in ("q_rstd", "k_rstd") and not self.normalise:
            return None
        sizes = [known[extent] if isinstance(extent, str) else extent for extent in shape]
        return torch.full(sizes, float("nan"), dtype=torch.float64)  # type: ignore[arg-type]


@cache
def programs() -> dict[str, Program]:
    """What the operator's stages mean, by stage, for head dim 64."""
    found: dict[str, Program] = {}
    for kernel in Project(ROOT).kernels():
        is_narrow = dict(kernel.program.dims).get("K") == HEAD_DIM
        if kernel.name.stage in (*STAGES, *BACKWARD_STAGES) and is_narrow:
            found.setdefault(kernel.name.stage, kernel.program)
    return found
