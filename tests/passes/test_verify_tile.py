"""Tile IR: one broken program for each rule, and the real ones, which keep them all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loomgen.errors import InternalError
from loomgen.ir import tile
from loomgen.ir.types import DType, Index, Value
from loomgen.passes.verify_tile import verify_tile
from tests.interp.programs import (
    BF16,
    BOOL,
    F32,
    I32,
    SPAN,
    TF32,
    axis,
    binary,
    call,
    cast,
    const,
    contract,
    coordinate,
    element,
    integer,
    letter,
    load,
    map_,
    program,
    read,
    scalar,
    select,
    store,
    tensor,
    value,
    window,
    within,
)
from tests.passes.gdn import STAGES, kernel, lowered

i, j = (Index(name=name, symbol="C", extent=32) for name in "ij")
d = Index(name="d", symbol="K", extent=64)
r = Index(name="r", symbol="16", extent=16)
X, Y = tensor("x", 32, 64), tensor("y", 32, 64, access="out")
A, OTHER = value("a", i, d), value("other", i, d)
LOAD = load(A, X, letter(i), letter(d))
HALF, PRODUCT = value("h", i, d, dtype=BF16), value("p", i, j)
NARROW = map_(HALF, cast(read(A), BF16))


def fault(*body: tile.Stmt, grid: tuple[tile.GridAxis, ...] = (), scalars: dict[str, DType] | None = None) -> str:
    """What the verifier says, or nothing."""
    try:
        verify_tile(program(*body, tensors=(X, Y), grid=grid, scalars=scalars), "the pass")
    except InternalError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("stage", STAGES)
def test_the_programs_of_the_kernels_hold(stage: str) -> None:
    verify_tile(kernel(stage).program, "spec")
    verify_tile(lowered(stage).program, "fuse_maps")


def test_a_fault_names_the_pass_and_the_statement() -> None:
    assert fault(map_(OTHER, read(A))) == "internal error in the pass: a[i,d]:f32 is not defined here, in 'other'"


def test_values_are_defined_once_and_before_their_uses() -> None:
    assert fault(LOAD, map_(OTHER, read(A)), store(Y, OTHER, letter(i), letter(d))) == ""
    assert "a[i,d]:f32 is defined twice" in fault(LOAD, LOAD)
    assert "is not defined here" in fault(map_(OTHER, read(A)), LOAD)
    renamed = replace(A, dtype=BF16)
    assert "a[i,d]:bf16 is not defined here" in fault(LOAD, map_(value("b", i, d, dtype=BF16), read(renamed)))
    assert "repeats an index" in fault(map_(value("b", i, i), const(0.0)))


def test_blocks_keep_their_values() -> None:
    inside = tile.If(cond=const(True, BOOL), then=(LOAD,), orelse=(), merges=(), text="if", span=SPAN)
    assert fault(inside) == ""
    assert "is not defined here" in fault(inside, map_(OTHER, read(A)))
    assert "is defined twice" in fault(inside, LOAD)


def test_what_is_carried_or_merged_keeps_its_type() -> None:
    inner, update, result = value("a2", i, d), value("a3", i, d), value("a4", i, d)
    carry = tile.Carry(init=A, inner=inner, update=update, result=result)
    body = (map_(update, binary(read(inner), "+", read(inner))),)
    loop = tile.ForRange(
        name="m", begin=integer(0), end=integer(4), carried=(carry,), body=body, text="for m", span=SPAN
    )
    assert fault(LOAD, loop, map_(OTHER, read(result))) == ""
    assert "is not defined here, in 'for m'" in fault(LOAD, replace(loop, body=()))
    assert "is not defined here" in fault(LOAD, loop, map_(OTHER, read(inner)))
    narrow = replace(carry, result=value("a4", i, d, dtype=BF16))
    assert "a4[i,d]:bf16 takes over from a[i,d]:f32" in fault(LOAD, replace(loop, carried=(narrow,)))
    assert "0.0 is not i32" in fault(LOAD, replace(loop, begin=const(0.0)))


def test_letters_are_bound() -> None:
    assert "unbound j" in fault(map_(value("b", i), cast(letter(j), F32)))
    assert "unbound d" in fault(LOAD, map_(value("b", i), read(A)))
    total = tile.Reduce(value=value("b", i), op=tile.ReduceOp.SUM, over=(d,), expr=read(A), text="b", span=SPAN)
    assert fault(LOAD, total) == ""
    assert "unbound j" in fault(LOAD, store(Y, A, letter(j), letter(d)))


def test_subscripts_fit_their_axes() -> None:
    shifted = read(A, tile.Sub(index=r, offset=16), d)
    assert fault(LOAD, map_(value("b", r, d), shifted)) == ""
    assert "a[r+17,d] reaches past axis i" in fault(
        LOAD, map_(value("b", r, d), read(A, tile.Sub(index=r, offset=17), d))
    )
    assert fault(LOAD, map_(value("b", i), read(A, i, 63))) == ""
    assert "reaches past axis d" in fault(LOAD, map_(value("b", i), read(A, i, 64)))
    assert "has 2 axes" in fault(
        LOAD, map_(value("b", i), tile.TileRead(value=A, subs=(tile.Sub(index=i),), span=SPAN))
    )
    assert "x has 2 axes" in fault(load(value("b", i), X, letter(i)))


@pytest.mark.parametrize(
    ("expr", "shown"),
    [
        (binary(const(1.0), "+", integer(1)), "operands f32, i32 of 1.0 + 1"),
        (binary(const(1.0), "<", integer(1)), "operands f32, i32 of 1.0 < 1"),
        (binary(const(1.0), "and", const(2.0)), "operands f32, f32 of 1.0 and 2.0"),
        (select(const(1.0), const(1.0), const(0.0)), "operands f32, f32, f32 of"),
        (select(const(True, BOOL), const(1.0), integer(0)), "operands bool, f32, i32 of"),
        (call("min", const(1.0), integer(1)), "operands f32, i32 of min(1.0, 1)"),
        (tile.Unary(op=tile.UnaryOp.NOT, x=const(1.0), dtype=BOOL, span=SPAN), "operands f32 of not 1.0"),
        (integer(1), "is given a i32"),
    ],
)
def test_operands_have_the_dtypes_of_their_operator(expr: tile.Expr, shown: str) -> None:
    assert shown in fault(map_(value("b"), expr))


def test_products_have_shapes_that_agree() -> None:
    good = contract(PRODUCT, read(HALF), read(HALF, j, d), d)
    assert fault(LOAD, NARROW, good) == ""
    assert "the left operand is not over i and d" in fault(LOAD, NARROW, replace(good, a=read(HALF, j, d)))
    assert "the right operand is not over j and d" in fault(LOAD, NARROW, replace(good, b=read(HALF)))
    assert "differ in dtype" in fault(LOAD, NARROW, replace(good, b=read(A, j, d)))
    assert "is not f32" in fault(LOAD, NARROW, replace(good, value=value("p", i, j, dtype=BF16)))
    assert "is given a bf16" in fault(LOAD, NARROW, replace(good, seed=read(HALF)))


def test_inverses_and_their_pieces_have_shapes_that_agree() -> None:
    square, diagonal = value("s", i, j, dtype=TF32), value("e", i, r, dtype=TF32)
    define = map_(square, cast(const(0.0), TF32))
    blocks = tile.DiagonalInverse(value=diagonal, source=read(square), text="e", span=SPAN)
    assert fault(define, blocks) == ""
    assert "e[i,j]:f32 is not 32 x 16" in fault(define, replace(blocks, value=value("e", i, j)))
    assert "is not square" in fault(LOAD, replace(blocks, source=read(A)))
    parts = tuple(value(f"part{n}", j, r) for n in range(2))
    whole = tile.Concat(value=value("whole", i, j), parts=parts, text="whole", span=SPAN)
    filled = tuple(map_(part, const(0.0)) for part in parts)
    assert fault(*filled, whole) == ""
    assert "part part0[j,r]:f32 is not 32 x 32" in fault(*filled, replace(whole, parts=parts[:1]))


def test_stores_go_to_what_may_be_written() -> None:
    assert "x is an in tensor" in fault(LOAD, store(X, A, letter(i), letter(d)))
    assert "y is given a bf16" in fault(LOAD, NARROW, store(Y, HALF, letter(i), letter(d)))
    assert "y has 2 axes" in fault(LOAD, store(Y, A, letter(i)))
    stranger = tensor("z", 32, 64, access="out")
    assert "z is no tensor of the program" in fault(LOAD, store(stranger, A, letter(i), letter(d)))


def test_the_grid_the_windows_and_the_arguments_are_in_scope() -> None:
    c = window("c", tile.WindowKind.CHUNK, 32)
    inside = load(A, X, within(c, letter(i)), letter(d))
    assert fault(inside, grid=(axis("c", "NC", c),)) == ""
    assert "window c is not in scope" in fault(inside)
    assert "hv is not in scope" in fault(map_(value("b", dtype=I32), coordinate("hv")))
    assert fault(map_(value("b"), scalar("scale")), scalars={"scale": F32}) == ""
    assert "scale is no argument" in fault(map_(value("b"), scalar("scale")))
    stranger = element(tensor("z", 32), letter(i))
    assert "z is no tensor of the program" in fault(map_(value("b", i), stranger))


def test_an_interior_value_of_the_program_is_checked_too() -> None:
    """The front end's own shape of a mistake: a carried tile read after its loop by its inner name."""
    original = lowered("fwd_h").program
    (loop,) = [stmt for stmt in original.body if isinstance(stmt, tile.ForWindow)]
    inner: Value = loop.carried[0].inner
    last = tile.Map(value=value("late", *inner.indices), expr=read(inner), text="late = S", span=SPAN)
    with pytest.raises(InternalError, match="is not defined here, in 'late = S'"):
        verify_tile(replace(original, body=(*original.body, last)), "fuse_maps")
