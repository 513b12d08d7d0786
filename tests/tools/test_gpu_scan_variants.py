"""The variants of the scans as far as they go without a card: their kernels, and tensors for all of their arguments."""

from __future__ import annotations

import pytest
import torch

from loomgen.ops.dispatch import SCAN_VARIANTS, CallShape
from loomgen.registry import load
from tools import gpu_scan_variants
from tools.gpu_scan_variants import STAGES, inputs, kernel_of

CALL = CallShape(n_sequences=1, value_heads=2, head_dim=128, activation=torch.bfloat16, step=torch.float32)


@pytest.mark.parametrize("stage", STAGES)
def test_each_variant_has_a_kernel_whose_arguments_are_there(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_scan_variants, "DEVICE", torch.device("cpu"))
    monkeypatch.setattr(gpu_scan_variants, "N_TOKENS", 128)
    given = inputs(1, 1, 2)
    sizes = {"T": 128, "NC": 2, "H": 1, "HV": 2}
    for variant in SCAN_VARIANTS:
        kernel = kernel_of(load("sm_90a"), CALL, stage, variant)
        assert (kernel.stage, kernel.variant) == (stage, variant)
        for argument in kernel.arguments:
            if argument.kind == "tensor" and not argument.optional:
                x = given[argument.name]
                assert isinstance(x, torch.Tensor)
                assert list(x.shape) == [sizes[n] if isinstance(n, str) else n for n in argument.shape]
                assert str(x.dtype) == {"bf16": "torch.bfloat16", "f32": "torch.float32"}[argument.dtype]
            if argument.kind == "scalar":
                assert isinstance(given[argument.name], float)
