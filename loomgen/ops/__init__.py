"""Operators on torch tensors, run by the kernels of the registry. Imports nothing of the compiler."""

from loomgen.ops.chunk import chunk_gated_delta_rule
from loomgen.ops.workspace import workspace_bytes

__all__ = ["chunk_gated_delta_rule", "workspace_bytes"]
