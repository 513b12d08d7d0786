"""Stages of several roles that differ from the example: every one runs in the emulator as the interpreter says."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomgen.cli.project import compiler, headers
from loomgen.render import render_tree
from loomgen.spec import load
from loomgen.target import SM_90A
from loomgen.verify import verify_stages
from tests.examples.running import ROOT

EXAMPLE = (ROOT / "specs" / "examples" / "matmul_tma.yaml").read_text(encoding="utf-8")
DIMS = "dims: {M: 256, O: 512, K: 320, KB: 64}"
LOAD = "load:     {warps: 4, registers: 40,  runs: [at, bt]}"
Edits = tuple[tuple[str, str], ...]

ONE_WARPGROUP: Edits = (
    ("MB: 128, OB: 256", "MB: 64, OB: 128"),
    ("multiply: {warps: 8", "multiply: {warps: 4"),
    ("rings: {at: 3, bt: 3}", "rings: {at: 2, bt: 2}"),
    ("tma: [at, bt, out]", "tma: [at, bt]"),  # the result leaves by the threads
)
TWO_PANELS: Edits = (
    (DIMS, "dims: {M: 64, O: 64, K: 384, KB: 128}"),
    ("MB: 128, OB: 256", "MB: 64, OB: 64"),
    ("multiply: {warps: 8", "multiply: {warps: 4"),
    ("TX: bf16", "TX: f16"),
)
THREE_ROLES: Edits = (
    (LOAD, "load_a: {warps: 4, registers: 40, runs: [at]}\n    load_b: {warps: 4, registers: 40, runs: [bt]}"),
    ("registers: 232", "registers: 208"),
    ("rings: {at: 3, bt: 3}", "rings: {at: 3, bt: 2}"),
    ("MB: 128, OB: 256", "MB: 128, OB: 128"),
)


@pytest.mark.parametrize("edits", [ONE_WARPGROUP, TWO_PANELS, THREE_ROLES], ids=["one", "panels", "three"])
def test_other_roles_agree_with_the_interpreter(tmp_path: Path, edits: Edits) -> None:
    text = EXAMPLE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "specs" / "stage.yaml"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    kernels = load([path], tmp_path)
    for name, content in render_tree(kernels, [SM_90A], compiler(), headers()).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    rows = verify_stages(kernels, "emulate", (1,), (1, 1), (0, 1), root=tmp_path, arch="sm_90a")
    assert [(row.tensor, row.bits, row.ok) for row in rows] == [("out", True, True)] * 2
