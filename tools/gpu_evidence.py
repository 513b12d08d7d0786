"""The document that a tool's run on a GPU leaves: the card, what took part, the command, and a row for each result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from loomgen.bench.evidence import write_document
from loomgen.conformance.evidence import Card

TORCH_VERSIONS = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}


def write_evidence(
    out: Path,
    topic: str,
    card: Card,
    rows: Sequence[Mapping[str, Any]],
    *,
    command: str,
    commit: str,
    versions: Mapping[str, str] = TORCH_VERSIONS,
) -> None:
    """Writes ``out``/``topic``.<card>.json."""
    document = {
        "card": card.name,
        "driver": card.driver,
        "clocks": dict(card.clocks),
        "versions": dict(versions),
        "commit": commit,
        "command": command,
        "rows": list(rows),
    }
    write_document(out / f"{topic}.{card.slug}.json", document)
