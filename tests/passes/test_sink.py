"""Constants on their way to the blocks that use them."""

from __future__ import annotations

from loomgen.ir.device import Branch, Comment, CStmt, Declare, Do, For, call, name, num
from loomgen.passes.lower.sink import sink

HK = Declare(type="const int", name="hk", init=name("hv"))
USE = Do(call=call("f", name("hk")))
OTHER = Do(call=call("g"))


def loop(*body: CStmt, end: str = "n") -> For:
    return For(var="i", begin=num(0), end=name(end), unroll=False, body=body)


def test_it_stands_above_the_first_statement_that_uses_it_and_that_ones_comment() -> None:
    why = Comment(text="why")
    assert sink(HK, (OTHER, why, USE, loop(USE))) == (OTHER, HK, why, USE, loop(USE))


def test_each_block_that_uses_it_has_its_own() -> None:
    branch = Branch(cond=name("b"), then=(OTHER, USE), orelse=(OTHER,))
    moved = Branch(cond=name("b"), then=(OTHER, HK, USE), orelse=(OTHER,))
    assert sink(HK, (branch, OTHER, loop(USE))) == (moved, OTHER, loop(HK, USE))


def test_a_loop_that_ends_by_it_needs_it_outside() -> None:
    assert sink(HK, (OTHER, loop(USE, end="hk"))) == (OTHER, HK, loop(USE, end="hk"))


def test_what_nothing_uses_is_not_declared() -> None:
    assert sink(HK, (OTHER,)) == (OTHER,)
