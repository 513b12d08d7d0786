"""JSON documents that commands leave behind: whole or not at all, and refused before the work where they cannot be."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loomgen.errors import LoomgenError


class NotWritable(LoomgenError):
    """A path to which no document can be written."""


def write_document(path: Path, content: Mapping[str, Any]) -> None:
    """Makes the folders that are missing. Whoever is stopped on the way leaves what was there before; raises ValueError
    for numbers that are not finite, OSError."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def require_writable(path: Path) -> None:
    """Raises :class:`NotWritable` where :func:`write_document` could not write; nothing is made."""
    if path.is_dir():
        raise NotWritable(f"{path} is a folder, expected a file")
    folder = next(folder for folder in path.parents if folder.exists())
    if not folder.is_dir():
        raise NotWritable(f"{folder} is a file, expected a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotWritable(f"{folder} cannot be written to")
