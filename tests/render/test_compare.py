"""Differences between a tree on disk and the rendered one, and bringing the disk up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomgen.render import Change, Selection, apply, compare, read_tree, unified_diff
from loomgen.target import SM_90A, SM_100A, SM_103A, TARGETS, UnknownTarget
from tests.render.fakes import kernel

EVERYTHING = Selection.parse("all", None)
SOURCE = "generated/csrc/sm_100a/gdn/copy__c64_f32__base.cu"
EXPECTED = {"generated/MANIFEST.json": b"{}\n", SOURCE: b"one\ntwo\n", "registry/registry_sm_90a.json": b"[]\n"}


def test_missing_extra_and_changed_are_told_apart() -> None:
    actual = {SOURCE: b"one\nTWO\n", "registry/registry_sm_90a.json": b"[]\n", "generated/stray.txt": b""}
    found = [(difference.path, difference.change) for difference in compare(EXPECTED, actual)]
    assert found == [
        ("generated/MANIFEST.json", Change.MISSING),
        (SOURCE, Change.CHANGED),
        ("generated/stray.txt", Change.EXTRA),
    ]


def test_diff_goes_from_disk_to_rendered() -> None:
    (difference,) = compare({SOURCE: b"one\ntwo\n"}, {SOURCE: b"one\nTWO\n"})
    assert unified_diff(difference).split("\n") == [
        f"--- {SOURCE} (on disk)",
        f"+++ {SOURCE} (rendered)",
        "@@ -1,3 +1,3 @@",
        " one",
        "-TWO",
        "+two",
        " ",
    ]


def test_diff_shows_a_lost_newline_and_bytes_that_are_not_text() -> None:
    (difference,) = compare({SOURCE: b"one\n"}, {SOURCE: b"one\xff"})
    assert "-one\\xff" in unified_diff(difference).split("\n")
    (difference,) = compare({SOURCE: b"one\n"}, {SOURCE: b"one"})
    assert unified_diff(difference).split("\n")[-2:] == [" one", "+"]


def test_apply_makes_the_disk_equal_and_leaves_no_empty_folder(tmp_path: Path) -> None:
    stray = tmp_path / "generated" / "csrc" / "sm_90a" / "old" / "gone.cu"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"")
    apply(tmp_path, compare(EXPECTED, read_tree(tmp_path, EVERYTHING)))
    assert read_tree(tmp_path, EVERYTHING) == EXPECTED
    assert not (tmp_path / "generated" / "csrc" / "sm_90a").exists()


def test_apply_does_not_touch_what_is_up_to_date(tmp_path: Path) -> None:
    apply(tmp_path, compare(EXPECTED, {}))
    before = (tmp_path / SOURCE).stat().st_mtime_ns
    apply(tmp_path, compare({**EXPECTED, "generated/MANIFEST.json": b"{ }\n"}, read_tree(tmp_path, EVERYTHING)))
    assert (tmp_path / SOURCE).stat().st_mtime_ns == before
    assert (tmp_path / "generated/MANIFEST.json").read_bytes() == b"{ }\n"


def test_targets_that_share_sources_are_selected_together() -> None:
    assert Selection.parse("sm_90a", None).targets == (SM_90A,)
    assert Selection.parse("sm_103a", None).targets == (SM_100A, SM_103A)
    assert Selection.parse("all", None).targets == TARGETS
    with pytest.raises(UnknownTarget):
        Selection.parse("sm_80", None)


@pytest.mark.parametrize(
    ("arch", "stage", "path", "covered"),
    [
        ("all", None, "generated/stray.txt", True),
        ("all", None, "registry/stray.txt", True),
        ("all", None, "registry/rounds/0001.json", False),
        ("sm_90a", None, "generated/csrc/sm_90a/gdn/stray.cu", True),
        ("sm_90a", None, SOURCE, False),
        ("sm_103a", None, SOURCE, True),
        ("sm_90a", None, "registry/registry_sm_90a.json", True),
        ("sm_90a", None, "registry/registry_sm_100a.json", False),
        ("sm_90a", None, "generated/MANIFEST.json", False),
        ("sm_90a", None, "generated/include/loom/loom.cuh", True),
        ("all", "co*", SOURCE, True),
        ("all", "fwd_*", SOURCE, False),
        ("all", "co*", "generated/csrc/sm_100a/gdn/stray.cu", False),
        ("all", "co*", "registry/registry_sm_90a.json", False),
    ],
)
def test_what_a_selection_covers(arch: str, stage: str | None, path: str, covered: bool) -> None:
    assert Selection.parse(arch, stage).covers(path) is covered


def test_kernels_of_a_selection() -> None:
    specs = (kernel("copy"), kernel("blend", targets=("sm_90a",)))
    assert Selection.parse("sm_100a", None).kernels(specs) == (specs[0],)
    assert Selection.parse("all", "bl*").kernels(specs) == (specs[1],)
