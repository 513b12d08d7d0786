"""Goldens: the gated delta rule in plain PyTorch on the CPU, float64 by default, independent of the compiler."""

from loomgen.golden.backward import Gradients, chunk_gated_delta_rule_backward
from loomgen.golden.chunk import chunk_gated_delta_rule
from loomgen.golden.composed import Composed, composed
from loomgen.golden.gates import (
    GateGradients,
    gate_from_raw,
    gate_gradients,
    step_from_raw,
    step_gradient,
)
from loomgen.golden.layout import Chunk, chunks, l2_normalise
from loomgen.golden.recurrence import recurrent_gated_delta_rule
from loomgen.golden.stages import CHUNK, Prepared, Scanned, Transform, fwd_h, fwd_o, prep, wy, wy_recompute
from loomgen.golden.stages_backward import ChunkGradients, ReverseScanned, chunk_grads, dhu, dv_local

__all__ = [
    "CHUNK",
    "Chunk",
    "ChunkGradients",
    "Composed",
    "GateGradients",
    "Gradients",
    "Prepared",
    "ReverseScanned",
    "Scanned",
    "Transform",
    "chunk_gated_delta_rule",
    "chunk_gated_delta_rule_backward",
    "chunk_grads",
    "chunks",
    "composed",
    "dhu",
    "dv_local",
    "fwd_h",
    "fwd_o",
    "gate_from_raw",
    "gate_gradients",
    "l2_normalise",
    "prep",
    "recurrent_gated_delta_rule",
    "step_from_raw",
    "step_gradient",
    "wy",
    "wy_recompute",
]
