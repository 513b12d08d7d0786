"""Write the files that are made from code and published: `python tools/update_published.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from loomgen.registry import canonical_json, registry_schema
from loomgen.spec.codes import errors_markdown


def published() -> Mapping[str, bytes]:
    """The contents of each file, by its path from the project's root."""
    return {
        "loomgen/registry/schema.json": canonical_json(registry_schema()),
        "docs/errors.md": errors_markdown().encode(),
    }


def write_published(root: Path) -> None:
    for path, content in published().items():
        (root / path).write_bytes(content)


if __name__ == "__main__":
    write_published(Path(__file__).resolve().parents[1])
