"""Device code without what nothing needs."""

from __future__ import annotations

from loomgen.ir.device import (
    Assign,
    Blank,
    Branch,
    Comment,
    CStmt,
    Declare,
    DeclareArray,
    Do,
    For,
    Scope,
    call,
    name,
    num,
)
from loomgen.passes.prune import prune

USE_X = Do(call=call("f", name("x")))


def constant(of: str, value: str) -> Declare:
    return Declare(type="const int", name=of, init=name(value))


def test_constants_go_with_their_last_reader() -> None:
    """y needs x, but nothing needs y: both go."""
    assert prune((constant("x", "a"), constant("y", "x"), constant("z", "a"), Do(call=call("f", name("z"))))) == (
        constant("z", "a"),
        Do(call=call("f", name("z"))),
    )


def test_an_array_that_is_written_is_needed() -> None:
    array = DeclareArray(type="float", name="x", extents=(4,))
    write = Assign(target=name("x"), value=num(0))
    assert prune((array, write)) == (array, write)
    assert prune((array,)) == ()


def test_a_loop_or_branch_without_code_goes() -> None:
    loop = For(var="i", begin=num(0), end=name("n"), unroll=False, body=(Comment(text="nothing"),))
    branch = Branch(cond=name("c"), then=(Blank(),), orelse=(constant("x", "a"),))
    assert prune((constant("n", "a"), constant("c", "a"), loop, branch)) == ()


def test_names_inside_blocks_count() -> None:
    inside: tuple[CStmt, ...] = (constant("x", "a"), USE_X, constant("y", "a"))
    loop = For(var="i", begin=num(0), end=num(4), unroll=True, body=inside)
    kept = For(var="i", begin=num(0), end=num(4), unroll=True, body=inside[:2])
    assert prune((loop, Scope(body=inside))) == (kept, Scope(body=inside[:2]))


def test_blank_lines_are_single_and_never_at_an_end() -> None:
    blank = Blank()
    assert prune((blank, USE_X, blank, blank, USE_X, blank)) == (USE_X, blank, USE_X)
