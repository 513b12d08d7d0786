"""Documents are whole or not there, and what cannot be written is refused before any work."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import pytest

from loomgen.documents import NotWritable, require_writable, write_document
from tools.arguments import out_file, out_folder


def test_a_document_is_written_into_folders_that_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    write_document(path, {"x": 1})
    assert json.loads(path.read_text()) == {"x": 1} and [p.name for p in path.parent.iterdir()] == ["b.json"]


def test_what_was_there_stays_where_the_new_one_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_document(path, {"x": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_document(path, {"x": math.nan})
    assert json.loads(path.read_text()) == {"x": 1}


def test_a_path_is_refused_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    require_writable(tmp_path / "new" / "folder" / "a.json")
    require_writable(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]  # nothing is made
    with pytest.raises(NotWritable, match="is a folder"):
        require_writable(tmp_path)
    with pytest.raises(NotWritable, match="file is a file, expected a folder"):
        require_writable(tmp_path / "file" / "a.json")
    monkeypatch.setattr("os.access", lambda folder, mode: False)
    with pytest.raises(NotWritable, match=f"{tmp_path} cannot be written to"):
        require_writable(tmp_path / "new" / "a.json")


def test_tools_refuse_it_as_an_argument(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert out_folder(str(tmp_path / "new")) == tmp_path / "new"
    for parse, text in ((out_file, tmp_path), (out_folder, tmp_path / "file")):
        with pytest.raises(argparse.ArgumentTypeError, match="expected a"):
            parse(str(text))
