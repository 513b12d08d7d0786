"""Writing a registry: canonical JSON, and the schema that describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from loomgen.registry.model import Registry


def canonical_json(document: Any) -> bytes:
    """``document`` with sorted keys, two-space indent and a trailing newline: the same bytes on every machine."""
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode("ascii")


def registry_schema() -> dict[str, Any]:
    """The JSON schema of a registry, derived from the model."""
    schema = Registry.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def published_schema() -> bytes:
    """The schema as published, ``registry/schema.json``.

    A file rather than :func:`registry_schema` of the moment: another pydantic may word the same schema
    differently, and a project's exported files must not change with it.
    """
    return (Path(__file__).parent / "schema.json").read_bytes()
