"""The dtypes of tensors, by their names in specs and registries."""

from __future__ import annotations

from collections.abc import Mapping

import torch

TORCH_DTYPES: Mapping[str, torch.dtype] = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}
"""Of all dtypes that a tensor in memory may have; tf32 is that of values alone."""

DTYPE_NAMES: Mapping[torch.dtype, str] = {dtype: name for name, dtype in TORCH_DTYPES.items()}
