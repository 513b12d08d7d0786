"""A bundle: a folder of the package that holds all that running kernels takes, so that a wheel needs no nvcc.

It is laid out as a project (``registry/``, ``generated/``), with the cubins and a manifest beside them::

    bundle/registry/registry_<arch>.json
    bundle/generated/{csrc,include}/...
    bundle/cubin/<arch>/manifest.json, <kernel>.cubin
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loomgen.registry import Registry, canonical_json, registry_path
from loomgen.root import BUNDLE
from loomgen.runtime.cache import CubinWarning
from loomgen.runtime.content import SOURCE_HEADERS, content_keys
from loomgen.target import Target

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Bundle:
    """The bundle in ``folder``, which need not exist."""

    folder: Path = BUNDLE

    def read(self, contents: Mapping[str, str], target: Target) -> dict[str, bytes]:
        """The cubins that were made from these contents (``content_keys``), by kernel name.

        Those of other contents are left out; so is, with a warning, one that is damaged.
        """
        entries = self._entries(target)
        wanted = {name: entries[name] for name, content in contents.items() if _made_from(entries.get(name), content)}
        found = {name: self._cubin(name, entry["sha256"], target) for name, entry in wanted.items()}
        return {name: cubin for name, cubin in found.items() if cubin is not None}

    def _entries(self, target: Target) -> dict[str, Any]:
        path = self._cubins(target) / "manifest.json"
        if not path.is_file():
            return {}
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            warnings.warn(f"{path}: damaged ({error}); its cubins are not used", CubinWarning, stacklevel=3)
            return {}
        return dict(manifest["cubins"]) if manifest["version"] == _VERSION else {}

    def _cubin(self, name: str, sha256: str, target: Target) -> bytes | None:
        path = self._cubins(target) / f"{name}.cubin"
        cubin = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(cubin).hexdigest() == sha256:
            return cubin
        warnings.warn(f"{path}: damaged (its checksum does not fit); it is not used", CubinWarning, stacklevel=3)
        return None

    def write(self, registry: Registry, target: Target, root: Path, cubins: Mapping[str, Path], nvcc: str) -> None:
        """Copies the registry of ``target``, its sources and headers from the project at ``root``, and ``cubins`` (by
        kernel name), which ``nvcc`` of that version made from them. Cubins bundled before for ``target`` are dropped.
        The project may be the bundle itself.
        """
        kernels = [kernel for kernel in registry.kernels if kernel.name in cubins]
        contents = content_keys(kernels, target, root)
        folder = self._cubins(target)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if root != self.folder:
            self._copy_sources(registry, root)
        for name, cubin in cubins.items():
            shutil.copyfile(cubin, folder / f"{name}.cubin")
        entries = {
            name: {"content": contents[name], "sha256": hashlib.sha256(cubin.read_bytes()).hexdigest()}
            for name, cubin in cubins.items()
        }
        manifest = {"version": _VERSION, "nvcc": nvcc, "cubins": entries}
        (folder / "manifest.json").write_bytes(canonical_json(manifest))

    def _copy_sources(self, registry: Registry, root: Path) -> None:
        for path in (registry_path(registry.arch), *(kernel.source.path for kernel in registry.kernels)):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, self.folder / path)
        shutil.copytree(root / SOURCE_HEADERS, self.folder / SOURCE_HEADERS, dirs_exist_ok=True)

    def _cubins(self, target: Target) -> Path:
        return self.folder / "cubin" / target.name


def _made_from(entry: Mapping[str, str] | None, content: str) -> bool:
    return entry is not None and entry["content"] == content
