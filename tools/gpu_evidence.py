"""The document that a tool's run on a GPU leaves: the card, what took part, the command, and a row for each result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from loomgen.bench.implementations import package_version
from loomgen.conformance.evidence import Card, versions
from loomgen.documents import write_document
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


def package_versions(packages: Sequence[str]) -> dict[str, str]:
    """Of other packages that take part, by name; ``unknown`` for those that are not installed as such."""
    return {package: package_version(package) for package in packages}


def write_evidence(
    out: Path,
    topic: str,
    card: Card,
    rows: Sequence[Mapping[str, Any]],
    *,
    command: str,
    commit: str,
    versions: Mapping[str, str] = TORCH_VERSIONS,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Writes ``out``/``topic``.<card>.json, with the fields of ``more`` last, and returns its path."""
    document = {
        **card.described(),
        "versions": dict(versions),
        "commit": commit,
        "command": command,
        "rows": list(rows),
        **more,
    }
    path = out / f"{topic}.{card.slug}.json"
    write_document(path, document)
    return path
