"""Copies outside loops: where they are issued and how they are grouped."""

from __future__ import annotations

from loomgen.passes.group_copies import group_copies
from tests.passes.support import buffer, copy_in, copy_out, describe, kernel, load

A, B, C = buffer("a"), buffer("b"), buffer("c")


def test_copies_come_first_in_the_order_of_their_uses_a_group_a_statement() -> None:
    grouped = group_copies(kernel(copy_in(A), copy_in(B), load(B), copy_in(C), load(A), load(C)))
    assert describe(grouped.body) == [
        "copy in b",
        "commit",
        "copy in a",
        "commit",
        "copy in c",
        "commit",
        "load b",
        "load a",
        "load c",
    ]


def test_copies_that_one_statement_uses_share_a_group() -> None:
    both = (load(A), copy_out(B))
    same = tuple(type(op)(**{**{f: getattr(op, f) for f in op.__dataclass_fields__}, "text": "x"}) for op in both)
    grouped = group_copies(kernel(copy_in(A), copy_in(B), *same))
    assert describe(grouped.body) == ["copy in a", "copy in b", "commit", "x", "x"]


def test_a_plan_without_copies_stays_as_it_is() -> None:
    plain = kernel(load(A))
    assert group_copies(plain) == plain
