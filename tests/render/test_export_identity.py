"""The committed tree is what the specs give, whatever the hash seed and the working directory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_committed_tree_is_as_rendered(hash_seed: str, elsewhere: bool, tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "loomgen", "render", "--arch", "all", "--check"],
        cwd=tmp_path if elsewhere else ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_rendered_depends_on_this_machine() -> None:
    folders = (ROOT / "generated", ROOT / "registry")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if str(ROOT).encode() in path.read_bytes()] == []
