"""Targets are looked up by name and carry their own compiler flag."""

from __future__ import annotations

import pytest

from loomgen.target import SM_90A, TARGETS, UnknownTarget, select_targets, target_named


def test_gencode_names_the_architecture_and_no_other() -> None:
    assert [target.gencode for target in TARGETS] == [
        "-gencode=arch=compute_90a,code=sm_90a",
        "-gencode=arch=compute_100a,code=sm_100a",
        "-gencode=arch=compute_103a,code=sm_103a",
    ]


def test_blackwell_targets_share_their_sources() -> None:
    assert [target.source_group for target in TARGETS] == ["sm_90a", "sm_100a", "sm_100a"]


def test_every_source_group_is_a_target() -> None:
    assert all(target_named(target.source_group).source_group == target.source_group for target in TARGETS)


def test_select_all_or_one() -> None:
    assert select_targets("all") == TARGETS
    assert select_targets("sm_90a") == (SM_90A,)


def test_unknown_target_lists_the_known_ones() -> None:
    with pytest.raises(UnknownTarget, match="unknown target 'sm_80': want one of sm_90a, sm_100a, sm_103a"):
        target_named("sm_80")
