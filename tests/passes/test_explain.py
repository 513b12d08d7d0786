"""What ``loomgen explain`` prints: the right IR after each pass."""

from __future__ import annotations

import pytest

from loomgen.emit.explain import PASS_NAMES, UnknownPass, explain
from loomgen.emit.printer import print_function
from loomgen.ir.print_plan import print_layout, print_plan
from loomgen.ir.print_tile import print_program
from loomgen.target import SM_100A
from tests.cli.command import loomgen
from tests.passes.gdn import ROOT, kernel, lowered


def after(name: str | None, stage: str = "wy") -> str:
    return explain(kernel(stage), SM_100A, name)


def test_tile_ir_before_and_after_its_passes() -> None:
    assert after("spec") == print_program(kernel("wy").program)
    assert "U[i,j]:f32 = inverse of 1 + L[i,j]" in after("spec")
    assert "inverse of 1" not in after("lower_inverse")
    assert "\n  D[i,j]:f32 = " in after("lower_inverse")
    assert "\n  D[i,j]:f32 = " not in after("fuse_maps")
    assert after("fuse_maps") == print_program(lowered("wy").program)


def test_plan_ir_gains_its_memory_and_its_barriers() -> None:
    assert after("select").startswith("team: 4 slabs x 1 parts")
    assert "shared memory" not in after("group_copies")
    assert after("allocate").startswith("shared memory: ")
    assert "barrier" not in after("allocate")
    assert "barrier of the block" in after("synchronise")
    assert after("synchronise") == print_layout(lowered("wy").layout) + print_plan(lowered("wy").plan)


def test_device_ir_loses_what_nothing_uses() -> None:
    assert after("prune") == print_function(lowered("wy").device)
    assert "const int pair_col" in after("lower")
    assert len(after("lower")) > len(after("prune"))


def test_without_a_pass_each_ir_is_shown_as_it_is_left() -> None:
    headings = [line for line in after(None).splitlines() if line.startswith("# ")]
    assert headings == ["# after fuse_maps", "# after synchronise", "# after prune"]
    assert after(None).endswith(after("prune"))


@pytest.mark.parametrize("name", PASS_NAMES)
def test_every_pass_can_be_asked_for(name: str) -> None:
    assert after(name, "fwd_o").endswith("\n")


def test_an_unknown_pass_lists_the_known_ones() -> None:
    with pytest.raises(
        UnknownPass, match="no pass is called 'rings'; passes: spec, drop_unused, lower_inverse, fuse_maps, "
    ):
        after("rings")


def test_the_command_prints_it() -> None:
    for name in ("spec", "select", "prune"):
        assert loomgen(ROOT, "explain", "fwd_o", "--after", name).stdout == after(name, "fwd_o")
    result = loomgen(ROOT, "explain", "fwd_o", "--after", "rings")
    assert result.exit_code == 2
    assert "passes: spec, drop_unused, lower_inverse" in result.stderr
    assert loomgen(ROOT, "explain", "fwd_o", "--schedule").stdout.splitlines()[1] == "schedule:"
