"""Every failure that fuzzing found, shrunk, stays mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomgen.fuzz import Outcome, Verdict, check_cases, from_file

FILES = sorted((Path(__file__).parent / "regressions").glob("*.yaml"))
CACHE = Path(__file__).resolve().parents[2] / "build" / "fuzz"


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """All of them, compiled together."""
    found = check_cases([from_file(path.read_text()) for path in FILES], CACHE)
    return dict(zip((path.stem for path in FILES), found, strict=True))


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_it_agrees(name: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[name].verdict is Verdict.AGREES, outcomes[name].message
