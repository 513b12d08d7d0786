"""The kernels of ``specs/``, lowered once for all tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from loomgen.ir.kernel import KernelSpec
from loomgen.passes.pipeline import LoweredKernel, lower
from loomgen.spec import load
from loomgen.target import SM_100A

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("fwd_h", "fwd_o", "wy")
"""Those with products, a ring, an exchange and an inverse."""
ALL_STAGES = tuple(sorted(path.stem for path in (ROOT / "specs").rglob("*.yaml")))


@cache
def kernel(stage: str) -> KernelSpec:
    """The stage's first kernel."""
    (path,) = (ROOT / "specs").rglob(f"{stage}.yaml")
    return load([path], ROOT)[0]


@cache
def lowered(stage: str) -> LoweredKernel:
    return lower(kernel(stage), SM_100A)
