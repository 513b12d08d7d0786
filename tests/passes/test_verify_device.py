"""Device IR: one broken kernel for each rule, and the real ones, which keep them all."""

from __future__ import annotations

import pytest

from loomgen.errors import InternalError
from loomgen.ir.device import (
    Assign,
    Braces,
    CExpr,
    CStmt,
    Declare,
    DeclareArray,
    Do,
    Element,
    For,
    Infix,
    Literal,
    Parameter,
    Scope,
    call,
    name,
    num,
)
from loomgen.passes.verify_device import verify_device
from tests.passes.gdn import ALL_STAGES, lowered

ARRAY = DeclareArray(type="float", name="x", extents=(8, 4))


def fault(*body: CStmt) -> str:
    """What the verifier says, or nothing."""
    try:
        verify_device((Parameter(type="int32_t", name="n"),), body, "the pass")
    except InternalError as error:
        return str(error)
    return ""


def constant(text: str, init: CExpr | None = None) -> Declare:
    return Declare(type="const int", name=text, init=init or num(0))


def for_(var: str, end: CExpr, *body: CStmt) -> For:
    return For(var=var, begin=num(0), end=end, unroll=True, body=body)


def element(*subscripts: CExpr) -> Do:
    return Do(call=call("use", Element(array="x", subscripts=subscripts)))


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_the_code_of_the_kernels_holds(stage: str) -> None:
    device = lowered(stage).device
    verify_device(device.parameters, device.body, "prune")


def test_a_name_is_declared_before_its_use_in_a_scope_around_it() -> None:
    assert fault(constant("a"), Do(call=call("use", name("a"), name("n"), name("nullptr")))) == ""
    assert fault(Do(call=call("use", name("a")))) == "internal error in the pass: a is used and not declared"
    assert "a is used" in fault(Scope(body=(constant("a"),)), Do(call=call("use", name("a"))))
    assert "i is used" in fault(for_("i", num(4)), Do(call=call("use", name("i"))))
    assert "a is used" in fault(constant("a", name("a")))
    assert "tile is used" in fault(Do(call=call("tile.at", num(0), num(0))))
    assert fault(constant("v"), Do(call=call("use", name("v.x")))) == ""


def test_a_name_is_declared_once_in_a_scope() -> None:
    assert "a is declared twice in one scope" in fault(constant("a"), constant("a"))
    assert "i is declared twice" in fault(for_("i", num(4), constant("i")))
    assert fault(constant("a"), Scope(body=(constant("a"),))) == ""


def test_constants_are_not_assigned() -> None:
    def assigned(stmt: CStmt) -> str:
        return fault(stmt, Assign(target=name("a"), value=num(1)))

    assert "constant a is assigned" in assigned(constant("a"))
    assert assigned(Declare(type="int", name="a", init=num(0))) == ""
    assert assigned(Declare(type="const float*", name="a", init=name("nullptr"))) == ""
    assert "constant i is assigned" in fault(for_("i", num(4), Assign(target=name("i"), value=num(1))))
    assert "Literal is assigned" in fault(Assign(target=Literal(text="1"), value=num(1)))
    values = DeclareArray(type="const float", name="x", extents=(2,), init=Braces(items=(num(0), num(1))))
    assert "constant x" in fault(values, Assign(target=Element(array="x", subscripts=(num(0),)), value=num(1)))


def test_subscripts_stay_inside_their_array() -> None:
    assert fault(ARRAY, element(num(7), num(3))) == ""
    assert fault(ARRAY, element(num(7))) == ""
    assert "x: a subscript reaches 8 .. 8 of 8" in fault(ARRAY, element(num(8), num(0)))
    assert "x: a subscript reaches -1 .. -1 of 8" in fault(ARRAY, element(num(-1)))
    assert "x has 2 dimensions and is given 3" in fault(ARRAY, element(num(0), num(0), num(0)))
    assert "a has 0 dimensions" in fault(constant("a"), Do(call=call("use", Element(array="a", subscripts=(num(0),)))))


def test_subscripts_are_followed_through_loops() -> None:
    i = name("i")
    odd = Infix(op="+", a=Infix(op="*", a=num(2), b=i), b=num(1))
    half, rest = Infix(op="/", a=i, b=num(2)), Infix(op="%", a=i, b=num(4))
    assert fault(ARRAY, for_("i", num(4), element(odd))) == ""
    assert "reaches 1 .. 9 of 8" in fault(ARRAY, for_("i", num(5), element(odd)))
    assert fault(ARRAY, for_("i", num(16), element(half, rest))) == ""
    assert "reaches 0 .. 8 of 8" in fault(ARRAY, for_("i", num(17), element(half)))
    assert "reaches -1 .. 2 of 8" in fault(ARRAY, for_("i", num(4), element(Infix(op="-", a=i, b=num(1)))))
    assert fault(ARRAY, for_("i", name("n"), element(i))) == ""
