"""A lowered kernel as the text of its CUDA function."""

from __future__ import annotations

from loomgen.emit.printer import print_function
from loomgen.passes.pipeline import LoweredKernel


def emit_body(lowered: LoweredKernel) -> str:
    """Signature and body; the file around them is laid out by `emit.layout`."""
    return print_function(lowered.device)
