"""Registries: what the kernels of a target are and how they are launched, for whoever runs them.

A registry is a file of canonical JSON, ``registry/registry_<arch>.json``, and a pure function of the specs. This
package reads and writes them and imports nothing of the compiler.
"""

from loomgen.registry.model import (
    SCHEMA_VERSION,
    ArgumentEntry,
    BoxEntry,
    Constraints,
    KernelEntry,
    LaunchEntry,
    Multiple,
    Registry,
    ScanEntry,
    SourceEntry,
    SpecEntry,
    StrideSource,
)
from loomgen.registry.reader import RegistryError, load, parse_registry, registry_path
from loomgen.registry.writer import canonical_json, published_schema, registry_schema

__all__ = [
    "SCHEMA_VERSION",
    "ArgumentEntry",
    "BoxEntry",
    "Constraints",
    "KernelEntry",
    "LaunchEntry",
    "Multiple",
    "Registry",
    "RegistryError",
    "ScanEntry",
    "SourceEntry",
    "SpecEntry",
    "StrideSource",
    "canonical_json",
    "load",
    "parse_registry",
    "published_schema",
    "registry_path",
    "registry_schema",
]
