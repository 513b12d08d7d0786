"""Operators on torch tensors, run by the kernels of the registry. Imports nothing of the compiler."""

from loomgen.ops.chunk import chunk_gated_delta_rule
from loomgen.ops.training import TrainingBytes, training_bytes
from loomgen.ops.workspace import workspace_bytes

__all__ = ["TrainingBytes", "chunk_gated_delta_rule", "training_bytes", "workspace_bytes"]
