"""Cases as files."""

from __future__ import annotations

import pytest

from loomgen.fuzz import Case, from_file, to_file

CASE = Case(text="stage: fuzz\n", lengths=(0, 65), heads=(1, 2), seed=7)


def test_a_case_survives_its_file() -> None:
    assert to_file(CASE) == "# batch: lengths 0 65; heads 1/2; seed 7\nstage: fuzz\n"
    assert from_file(to_file(CASE)) == CASE


def test_a_file_without_a_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="want a first line such as `# batch:"):
        from_file("stage: fuzz\n")
