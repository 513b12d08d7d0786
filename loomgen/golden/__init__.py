"""Goldens: the gated delta rule in plain PyTorch on the CPU, float64 by default, independent of the compiler."""

from loomgen.golden.chunk import chunk_gated_delta_rule
from loomgen.golden.layout import Chunk, chunks, l2_normalise
from loomgen.golden.recurrence import recurrent_gated_delta_rule
from loomgen.golden.stages import CHUNK, Prepared, Scanned, Transform, fwd_h, fwd_o, prep, wy, wy_recompute

__all__ = [
    "CHUNK",
    "Chunk",
    "Prepared",
    "Scanned",
    "Transform",
    "chunk_gated_delta_rule",
    "chunks",
    "fwd_h",
    "fwd_o",
    "l2_normalise",
    "prep",
    "recurrent_gated_delta_rule",
    "wy",
    "wy_recompute",
]
