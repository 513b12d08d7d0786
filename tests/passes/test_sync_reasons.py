"""What a barrier's comment says of the pairs that it orders."""

from __future__ import annotations

import pytest

from loomgen.passes.sync_reasons import Pair, reason


def pair(text: str) -> Pair:
    """``write a -> read b``."""
    (before, earlier), (after, later) = (side.split() for side in text.split(" -> "))
    return (before, earlier), (after, later)


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        (["write a -> read a"], "write a -> read a"),
        (["write a -> read a", "write b -> read b"], "write a, b -> read them"),
        (["read a -> write a_next", "write a -> read a"], "write a -> read a; read a -> write a_next"),
        (["read a -> write c", "read b -> write c"], "read a, b -> write c"),
        (["write a -> read a", "write a -> write c", "write a -> read c"], "write a -> read a"),
        (["write a -> write c"], "write a -> write c"),
        ([f"write {name} -> read {name}" for name in "abcdefg"], "write a, b, c, d, e and 2 more -> read them"),
    ],
)
def test_pairs_of_one_kind_stand_together(pairs: list[str], text: str) -> None:
    assert reason(map(pair, pairs)) == text
