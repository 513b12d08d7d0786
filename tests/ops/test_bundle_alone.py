"""An installed package has its bundle and no checkout, and of the bundle's targets perhaps not the operator's own."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from loomgen.cli.project import default_root
from loomgen.ops import chunk_gated_delta_rule, training_bytes, workspace_bytes
from loomgen.ops.library import OPERATOR_ARCH, default_arch, registry_of
from loomgen.registry import registry_path
from loomgen.root import kernel_root
from loomgen.target import TARGETS

ROOT = default_root()
ARCH = "sm_90a"
SIZES: dict[str, Any] = {"n_tokens": 64, "key_heads": 1, "value_heads": 1}

SCRIPT = f"""
import sys
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import loomgen
from loomgen.cli.project import default_root
from loomgen.ops import chunk_gated_delta_rule, training_bytes, workspace_bytes

given = torch.load(sys.argv[1])
with FakeTensorMode() as mode:
    fake = {{name: mode.from_tensor(x).requires_grad_() for name, x in given.items()}}
    shape = chunk_gated_delta_rule(**fake)[0].shape
torch.save(
    {{
        "package": str(Path(loomgen.__file__).parent),
        "root": str(default_root()),
        "bytes": workspace_bytes(**{SIZES}),
        "training_bytes": tuple(training_bytes(**{SIZES})),
        "shape": tuple(shape),
        "o": chunk_gated_delta_rule(**given)[0],
    }},
    sys.argv[2],
)
"""


def call() -> dict[str, Any]:
    """64 tokens with a head."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 64, 1, 64, generator=generator, dtype=torch.bfloat16) / 8 for _ in range(3))
    g, beta = (torch.rand(1, 64, 1, generator=generator) for _ in range(2))
    return {"q": q, "k": k, "v": v, "g": -g, "beta": beta}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package, and in its bundle what ``build --bundle --arch sm_90a`` copies there."""
    folder = tmp_path_factory.mktemp("site")
    package = folder / "loomgen"
    shutil.copytree(ROOT / "loomgen", package, ignore=shutil.ignore_patterns("__pycache__", "bundle"))
    bundle = package / "bundle"
    (bundle / "registry").mkdir(parents=True)
    shutil.copy(ROOT / registry_path(ARCH), bundle / registry_path(ARCH))
    for kernel in registry_of(ARCH).kernels:
        (bundle / kernel.source.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / kernel.source.path, bundle / kernel.source.path)
    shutil.copytree(ROOT / "generated" / "include", bundle / "generated" / "include")
    return folder


def test_the_package_runs_from_a_bundle_of_another_target(site: Path, tmp_path: Path) -> None:
    given, found = tmp_path / "call.pt", tmp_path / "found.pt"
    torch.save(call(), given)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(given), str(found)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "LOOMGEN_CACHE_DIR": str(ROOT / "build")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = torch.load(io.BytesIO(found.read_bytes()))
    assert Path(result["package"]) == site / "loomgen"
    assert Path(result["root"]) == site / "loomgen" / "bundle"
    assert result["bytes"] == workspace_bytes(**SIZES)
    assert result["training_bytes"] == tuple(training_bytes(**SIZES))
    assert result["shape"] == (1, 64, 1, 64)
    assert torch.equal(result["o"], chunk_gated_delta_rule(**call(), backend=f"emulate:{ARCH}")[0])
    assert not (site / "loomgen" / "bundle" / "build").exists()


def test_the_default_is_the_operators_target_where_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    choose = default_arch.__wrapped__
    assert choose() == OPERATOR_ARCH
    (tmp_path / "registry").mkdir()
    monkeypatch.setattr("loomgen.ops.library.kernel_root", lambda: tmp_path)
    assert choose() == OPERATOR_ARCH  # whose registry the error will name
    (tmp_path / registry_path("sm_103a")).touch()
    assert choose() == "sm_103a"
    (tmp_path / registry_path("sm_90a")).touch()
    assert choose() == "sm_90a"


def test_a_checkout_has_registries_or_specs(tmp_path: Path) -> None:
    checkout, bundle = tmp_path / "checkout", tmp_path / "bundle"
    assert kernel_root(checkout, bundle) == bundle
    (checkout / "specs" / "gdn").mkdir(parents=True)
    assert kernel_root(checkout, bundle) == bundle
    (checkout / "specs" / "gdn" / "prep.yaml").touch()
    assert kernel_root(checkout, bundle) == checkout


def test_sizes_are_those_of_every_target(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = product((1, 1000), (1, 3), (64, 128), (torch.bfloat16, torch.float16), (True, False), (True, False))
    for n_tokens, n_sequences, head_dim, dtype, host_lengths, is_raw in flags:
        asked: dict[str, Any] = {
            "n_tokens": n_tokens,
            "n_sequences": n_sequences,
            "key_heads": 2,
            "value_heads": 4,
            "head_dim": head_dim,
            "dtype": dtype,
            "host_lengths": host_lengths,
            "use_gate_in_kernel": is_raw,
            "use_beta_sigmoid_in_kernel": is_raw,
        }
        found = set()
        for target in TARGETS:
            for module in ("workspace", "training"):
                registry = registry_of(target.name)
                monkeypatch.setattr(f"loomgen.ops.{module}.any_registry", lambda registry=registry: registry)
            found.add((workspace_bytes(**asked), training_bytes(**asked), training_bytes(**asked, save="states")))
        assert len(found) == 1, asked
