"""Programs that print a line, in the place of tools."""

from __future__ import annotations

from pathlib import Path


def program(path: Path, output: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path
