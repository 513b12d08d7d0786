"""What is generated: deterministic, valid, and of every kind that the language has."""

from __future__ import annotations

from pathlib import Path

from loomgen.fuzz.run import draw_round
from loomgen.ir import walk
from loomgen.ir.kernel import KernelSpec
from loomgen.spec import load

STATEMENTS = {"Contract", "ForRange", "ForWindow", "If", "Inverse", "Load", "Map", "Reduce", "Scan", "Store"}
EXPRESSIONS = {"ArgRead", "Call", "Cast", "Given", "IndexRead", "Select", "TensorRead", "TileRead", "WindowCoord"}


def kernels(folder: Path, count: int) -> list[KernelSpec]:
    """Loading raises SpecError for what is not valid."""
    found: list[KernelSpec] = []
    for case in draw_round(4, 0, count):
        path = folder / "case.yaml"
        path.write_text(case.text)
        found += load([path], folder)
    return found


def test_a_round_is_decided_by_seed_and_number() -> None:
    assert draw_round(1, 2, 8) == draw_round(1, 2, 8)
    assert draw_round(1, 2, 8) != draw_round(1, 3, 8)
    assert draw_round(1, 2, 8) != draw_round(2, 2, 8)


def test_every_case_is_valid_and_all_kinds_occur(tmp_path: Path) -> None:
    statements = [stmt for kernel in kernels(tmp_path, 150) for stmt in walk.statements(kernel.program.body)]
    nodes = [node for stmt in statements for expr in walk.expressions(stmt) for node in walk.nodes(expr)]
    assert {type(stmt).__name__ for stmt in statements} >= STATEMENTS
    assert {type(node).__name__ for node in nodes} >= EXPRESSIONS


def test_loops_over_chunks_go_both_ways() -> None:
    texts = "".join(case.text for case in draw_round(3, 0, 150))
    assert "for c in chunks(n):" in texts and "for c in reversed(chunks(n)):" in texts


def test_both_kinds_of_stages_and_all_grids_occur() -> None:
    texts = [case.text for case in draw_round(3, 0, 60)]
    assert {"rows: [" in text for text in texts} == {True, False}
    assert all(any(grid in text for text in texts) for grid in ("c: chunks", "n: sequences", "n: N", "vb: "))
