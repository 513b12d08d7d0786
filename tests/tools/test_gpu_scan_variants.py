"""The variants of the scans as far as they go without a card: their kernels, and tensors for all of their arguments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from loomgen.evidence import Card
from loomgen.ops.dispatch import SCAN_VARIANTS, CallShape
from loomgen.registry import load
from tools import gpu_scan_variants
from tools.gpu_scan_variants import SHAPES, TOPICS, inputs, kernel_of, main

CALL = CallShape(n_sequences=1, value_heads=2, head_dim=128, activation=torch.bfloat16, step=torch.float32)


@pytest.mark.parametrize("stage", TOPICS)
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


@pytest.mark.parametrize(
    ("words", "documents"),
    [
        ([], {"scan_variants": "fwd_h", "reverse_scan_variants": "dhu"}),
        (["--stage", "dhu"], {"reverse_scan_variants": "dhu"}),
        (["--stage", "fwd_h", "--stage", "dhu"], {"scan_variants": "fwd_h", "reverse_scan_variants": "dhu"}),
    ],
)
def test_each_stage_has_its_document(
    words: list[str], documents: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(kernels: Any, timer: Any, stage: str, shape: tuple[int, ...], variants: Any) -> dict[str, Any]:
        return {"row": str(shape), "pass": stage, "kernel_ms": dict.fromkeys(variants, 1.0), "chosen": "r32k2"}

    monkeypatch.setattr(gpu_scan_variants, "first_card", lambda: Card(name="NVIDIA H200", driver="1", clocks={}))
    monkeypatch.setattr(gpu_scan_variants, "measure", measured)
    for name in ("DeviceKernels", "CudaDriver", "CubinStore", "GpuTimer"):
        monkeypatch.setattr(gpu_scan_variants, name, lambda *_: None)
    assert main(["--out", str(tmp_path), "--commit", "abc", "--variant", "r32k2", *words]) == 0
    found = {path.name: json.loads(path.read_text())["rows"] for path in tmp_path.iterdir()}
    assert set(found) == {f"{topic}.h200.json" for topic in documents}
    for topic, stage in documents.items():
        rows = found[f"{topic}.h200.json"]
        assert [(row["row"], row["pass"]) for row in rows] == [(str(shape), stage) for shape in SHAPES]
        assert list(rows[0]["kernel_ms"]) == ["r32k2"]
