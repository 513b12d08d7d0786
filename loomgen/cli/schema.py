"""``loomgen schema``: JSON schemas, for editors and for readers of registries."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class Document(str, Enum):
    """What a schema describes."""

    SPEC = "spec"
    REGISTRY = "registry"


def schema(
    document: Annotated[Document, typer.Argument(help="What the schema describes.")] = Document.SPEC,
) -> None:
    """Print the JSON schema of a stage spec (for an editor's completion and checks) or of a registry."""
    from loomgen.registry import canonical_json, published_schema

    match document:
        case Document.REGISTRY:
            content = published_schema()
        case Document.SPEC:
            from loomgen.spec import json_schema

            content = canonical_json(json_schema())
    typer.echo(content.decode("utf-8"), nl=False)
