"""What the documents of tools that run on a GPU share: a row for each check, and versions of what takes part."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from loomgen.conformance.evidence import versions
from loomgen.toolchain.find import GXX, NVCC, find_tool, tool_version

TORCH_VERSIONS = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One check of one case: what was ``measured``, by name, and what bounds it."""

    check: str
    case: str
    measured: Mapping[str, float]
    bound: float | None
    ok: bool


def line(row: Row) -> str:
    measured = ", ".join(f"{name} {value:.4g}" for name, value in row.measured.items())
    return f"{row.check:<10} {row.case:<40} {measured:<60} {'ok' if row.ok else 'FAILED'}"


def built_versions() -> dict[str, str]:
    """What takes part where kernels are built, and the cores that build them; raises MissingTool."""
    return {
        **versions(tool_version(find_tool(NVCC)), tool_version(find_tool(GXX))),
        "torch": torch.__version__,
        "cores": str(os.cpu_count()),
    }
