"""The rendered tree on disk: reading it, and bringing it up to date."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from loomgen.render.compare import Difference
from loomgen.render.paths import GENERATED, REGISTRY
from loomgen.render.selection import Selection


def read_tree(root: Path, selection: Selection) -> dict[str, bytes]:
    """The selected files below ``generated/`` and ``registry/``, by posix path from ``root``."""
    files = (path for folder in (GENERATED, REGISTRY) for path in (root / folder).rglob("*") if path.is_file())
    paths = {file.relative_to(root).as_posix(): file for file in files}
    return {name: file.read_bytes() for name, file in sorted(paths.items()) if selection.covers(name)}


def apply(root: Path, differences: Iterable[Difference]) -> None:
    """Write what is missing or changed, remove what is extra, and the folders that this leaves empty."""
    for difference in differences:
        path = root / difference.path
        if difference.expected is None:
            path.unlink()
            _remove_empty(path.parent, root)
        else:
            _write(path, difference.expected)


def _write(path: Path, content: bytes) -> None:
    """Replace ``path`` in one step: a reader sees the old bytes or the new ones."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    Path(temporary).chmod(0o644)
    Path(temporary).replace(path)


def _remove_empty(folder: Path, root: Path) -> None:
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
