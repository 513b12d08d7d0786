"""Reading a registry."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from loomgen.errors import LoomgenError
from loomgen.registry.model import SCHEMA_VERSION, Registry
from loomgen.root import kernel_root


class RegistryError(LoomgenError):
    """A registry that is missing, damaged or of a version that this reader does not know."""


def registry_path(arch: str) -> str:
    """Where the registry of ``arch`` lies in a project."""
    return f"registry/registry_{arch}.json"


def load(arch: str, root: Path | None = None) -> Registry:
    """The registry of ``arch`` in the project at ``root`` (default: :func:`~loomgen.root.kernel_root`).

    Raises :class:`RegistryError` naming the file and what is wrong with it.
    """
    path = (kernel_root() if root is None else root) / registry_path(arch)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RegistryError(f"{path}: no such registry; `loomgen render --arch {arch}` writes it") from None
    except UnicodeDecodeError as error:
        raise RegistryError(f"{path}: not UTF-8: {error.reason}") from None
    registry = parse_registry(text, str(path))
    if registry.arch != arch:
        raise RegistryError(f"{path}: arch is {registry.arch!r}, expected {arch!r}")
    return registry


def parse_registry(text: str, origin: str) -> Registry:
    """The registry that ``text`` holds; ``origin`` names it in errors (:class:`RegistryError`)."""
    _check_version(text, origin)
    try:
        return Registry.model_validate_json(text)
    except ValidationError as error:
        raise RegistryError("\n".join(_describe(origin, error))) from None


def _check_version(text: str, origin: str) -> None:
    """Refuse another major before reading anything else: its contents may mean something else."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise RegistryError(f"{origin}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if not isinstance(version, str):
        raise RegistryError(f"{origin}: not a registry: it has no schema_version")
    known = SCHEMA_VERSION.split(".")[0]
    if version.split(".")[0] != known:
        raise RegistryError(f"{origin}: schema_version is {version!r}; this reader knows {known}.x: update loomgen")


def _describe(origin: str, error: ValidationError) -> list[str]:
    return [f"{origin}: {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
