"""The published files are what the tool writes."""

from __future__ import annotations

from pathlib import Path

from tools.update_published import write_published

ROOT = Path(__file__).resolve().parents[2]
FILES = ("docs/errors.md", "loomgen/registry/schema.json")


def test_the_tool_writes_what_is_committed(tmp_path: Path) -> None:
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True)
    write_published(tmp_path)
    written = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {tmp_path / path for path in FILES}
    assert [path for path in FILES if (tmp_path / path).read_bytes() != (ROOT / path).read_bytes()] == []
