"""A lowered kernel as the text of its CUDA function."""

from __future__ import annotations

from loomgen.emit.describe import schedule_comment
from loomgen.emit.printer import print_function
from loomgen.passes.pipeline import LoweredKernel


def emit_body(lowered: LoweredKernel) -> str:
    """A line on the schedule, signature and body; the file around them is laid out by `emit.layout`."""
    comment = "".join(f"// {line}\n" for line in schedule_comment(lowered))
    return comment + print_function(lowered.device)
