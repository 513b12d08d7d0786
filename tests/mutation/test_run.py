"""Mutants of the committed kernels are found out; a line that matters to nothing is reported."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from loomgen.mutation import Kind, MutantRow, mutate
from loomgen.registry import KernelEntry, SourceEntry
from tests.verify.committed import MAIN, ROOT, entries, entry


def survivors(rows: Iterable[MutantRow]) -> list[tuple[str, int, str, str]]:
    return [(row.kernel, row.line, row.kind, row.text) for row in rows if row.killed_by is None]


WITHOUT_SYNCHRONISATION = ("meta", "slack", "gates")
"""Stages in which no thread reads what another one wrote."""

STAGES = sorted({each.stage for each in entries()} - set(WITHOUT_SYNCHRONISATION))


@pytest.mark.parametrize("stage", STAGES)
def test_no_kernel_can_do_without_any_of_its_synchronisation(stage: str) -> None:
    kernels = [each for each in entries() if each.stage == stage]
    rows = mutate(kernels, ROOT, kinds=[Kind.DELETED])
    assert survivors(rows) == []
    sources = [(ROOT / kernel.source.path).read_text() for kernel in kernels]
    calls = ("sync_block(", "sync_warp(", "cp_async_wait<", "cp_async_commit(")
    assert len(rows) == sum(source.count(call) for source in sources for call in calls) > 0


@pytest.mark.parametrize("name", [name for name in MAIN if name.split("__")[0] in STAGES])
def test_every_other_mutant_of_the_main_kernels_is_found_out(name: str) -> None:
    (kernel,) = (each for each in entries() if each.name == name)
    rows = mutate([kernel], ROOT, kinds=[kind for kind in Kind if kind is not Kind.DELETED])
    assert survivors(rows) == []
    assert "weakened" in {row.kind for row in rows}


def with_superfluous_barrier(root: Path) -> KernelEntry:
    """The output stage with a barrier after the one it needs, as a project of its own."""
    original = entry("fwd_o")
    lines = (ROOT / original.source.path).read_text().split("\n")
    at = next(n for n, line in enumerate(lines) if "sync_block()" in line)
    text = "\n".join([*lines[: at + 1], "    sync_warp();", *lines[at + 1 :]])
    source = root / original.source.path
    source.parent.mkdir(parents=True)
    source.write_text(text)
    shutil.copytree(ROOT / "generated" / "include", root / "generated" / "include")
    (root / "build").symlink_to(ROOT / "build")  # the emulator is built once
    digest = hashlib.sha256(text.encode()).hexdigest()
    return original.model_copy(update={"source": SourceEntry(path=original.source.path, sha256=digest)})


def test_a_superfluous_barrier_survives(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    rows = mutate(
        [with_superfluous_barrier(tmp_path)],
        tmp_path,
        kinds=[Kind.DELETED],
        on_mutant=lambda done, total: told.append((done, total)),
    )
    assert [row.text for row in rows if row.killed_by is None] == ["sync_warp();"]
    assert told == [(n, len(rows)) for n in range(1, len(rows) + 1)]


def test_a_row_says_what_found_the_mutant_out() -> None:
    rows = mutate([entry("wy")], ROOT, kinds=[Kind.LANES])
    by_map = {row.text.split(" = ")[0].removeprefix("const int "): row for row in rows}
    assert by_map["lane_row"].replacement.startswith("const int lane_row = ((lane + 1) % 32) % 16;")
    assert (by_map["lane_row"].killed_by, by_map["lane_row"].how) == (
        "bits of A",
        "lengths 64, late completion, seed 0",
    )
