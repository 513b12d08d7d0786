"""Where rendered files lie, as posix paths from the project's root."""

from __future__ import annotations

from loomgen.registry import registry_path

GENERATED = "generated"
SOURCES = f"{GENERATED}/csrc"
HEADERS = f"{GENERATED}/include"
MANIFEST = f"{GENERATED}/MANIFEST.json"
REGISTRY = "registry"
REGISTRY_SCHEMA = f"{REGISTRY}/schema.json"
LEDGER = f"{REGISTRY}/rounds"
"""The ledger of tuning rounds is evidence that people add to; it is not rendered."""


def source_path(directory: str, family: str, kernel_name: str) -> str:
    return f"{SOURCES}/{directory}/{family}/{kernel_name}.cu"


__all__ = [
    "GENERATED",
    "HEADERS",
    "LEDGER",
    "MANIFEST",
    "REGISTRY",
    "REGISTRY_SCHEMA",
    "SOURCES",
    "registry_path",
    "source_path",
]
