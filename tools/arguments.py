"""Arguments that several tools take: refused before any work where nothing could be written."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

from loomgen.documents import NotWritable, require_writable


def out_file(text: str) -> Path:
    """A document to write; its folder need not be there yet."""
    path = Path(text)
    try:
        require_writable(path)
    except NotWritable as error:
        raise ArgumentTypeError(str(error)) from None
    return path


def out_folder(text: str) -> Path:
    """A folder for documents, which need not be there yet."""
    return out_file(str(Path(text) / "document.json")).parent
