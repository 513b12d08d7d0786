"""Each kind of element expression, in all modes, with exact expectations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from loomgen.errors import InternalError
from loomgen.interp import Mode, interpret
from loomgen.ir.tile import (
    BinaryOp,
    Expr,
    ForWindow,
    Function,
    Given,
    Stmt,
    Sub,
    TensorRead,
    Unary,
    UnaryOp,
    WindowField,
    WindowKind,
)
from loomgen.ir.types import DType, Index
from tests.interp import programs as p

MODES: tuple[Mode, ...] = ("float64", "rounded", "ordered")
all_modes = pytest.mark.parametrize("mode", MODES)

ROW, COL = p.index("i", 2), p.index("j", 3)
X = p.tensor("x", 2, 3)
MAYBE = p.tensor("maybe", 3, optional=True)
X_TILE = p.value("xt", ROW, COL)

_TORCH = {DType.F32: torch.float64, DType.I32: torch.int64, DType.BOOL: torch.bool}


def evaluate(
    expr: Expr, *axes: Index, mode: Mode, x: torch.Tensor | None = None, maybe: torch.Tensor | None = None
) -> torch.Tensor:
    """``expr`` over ``axes``; f32 results as float64, so that nothing is rounded on the way out but by the mode.

    Tensor ``x`` [2, 3] is loaded into the tile ``xt``; ``maybe`` [3] may be absent; ``s`` is a scalar, 0.1.
    """
    out = p.tensor("out", *(axis.extent for axis in axes), 1, dtype=expr.dtype, access="out")
    result = p.value("result", *axes, dtype=expr.dtype)
    body = (
        p.load(X_TILE, X, p.letter(ROW), p.letter(COL)),
        p.map_(result, expr),
        p.store(out, result, *(p.letter(axis) for axis in axes), p.integer(0)),
    )
    program = p.program(*body, tensors=(X, MAYBE, out), scalars={"s": p.F32, "flag": p.BOOL})
    written = torch.zeros(*(axis.extent for axis in axes), 1, dtype=_TORCH[expr.dtype])
    given = torch.arange(6, dtype=torch.float32).reshape(2, 3) if x is None else x
    interpret(program, {"x": given, "maybe": maybe, "s": 0.1, "flag": True, "out": written}, mode=mode)
    return written.squeeze(-1)


@all_modes
def test_tile_reads_are_positional(mode: Mode) -> None:
    assert evaluate(p.read(X_TILE, ROW, COL), ROW, COL, mode=mode).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert evaluate(p.read(X_TILE, ROW, COL), COL, ROW, mode=mode).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert evaluate(p.read(X_TILE, ROW, ROW), ROW, mode=mode).tolist() == [0, 4]
    assert evaluate(p.read(X_TILE, 1, COL), COL, mode=mode).tolist() == [3, 4, 5]
    assert evaluate(p.read(X_TILE, ROW, Sub(index=ROW, offset=1)), ROW, mode=mode).tolist() == [1, 5]
    assert evaluate(p.read(X_TILE, 1, 2), mode=mode).item() == 5


def test_a_tile_subscript_stays_inside() -> None:
    with pytest.raises(InternalError, match="leaves an axis of 2"):
        evaluate(p.read(X_TILE, Sub(index=ROW, offset=1), COL), ROW, COL, mode="float64")


@all_modes
def test_letters_coordinates_and_arguments(mode: Mode) -> None:
    tens = p.binary(p.letter(ROW), "*", p.integer(10))
    assert evaluate(p.binary(tens, "+", p.letter(COL)), ROW, COL, mode=mode).tolist() == [[0, 1, 2], [10, 11, 12]]
    assert evaluate(p.scalar("flag", p.BOOL), mode=mode).item() is True
    expected = 0.1 if mode == "float64" else float(np.float32(0.1))
    assert evaluate(p.scalar("s"), mode=mode).item() == expected
    assert evaluate(p.const(0.1), mode=mode).item() == expected


@all_modes
@pytest.mark.parametrize(
    ("op", "expected"),
    [("+", 9), ("-", 5), ("*", 14), ("//", 3), ("%", 1), ("==", False), ("!=", True), ("<", False), ("<=", False),
     (">", True), (">=", True)],
)  # fmt: skip
def test_integer_operators(op: str, expected: int | bool, mode: Mode) -> None:
    assert evaluate(p.binary(p.integer(7), op, p.integer(2)), mode=mode).item() == expected


@all_modes
@pytest.mark.parametrize(("op", "expected"), [("and", False), ("or", True)])
def test_boolean_operators(op: str, expected: bool, mode: Mode) -> None:
    expr = p.binary(p.const(True, p.BOOL), op, p.const(False, p.BOOL))
    assert evaluate(expr, mode=mode).item() is expected
    assert evaluate(Unary(op=UnaryOp.NOT, x=expr, dtype=p.BOOL, span=p.SPAN), mode=mode).item() is not expected


@pytest.mark.parametrize(("op", "function"), [("+", np.add), ("-", np.subtract), ("*", np.multiply), ("/", np.divide)])
def test_floating_operators(op: str, function: np.ufunc) -> None:
    expr = p.binary(p.const(0.1), op, p.const(3.0))
    stored = np.float32(0.1)
    assert evaluate(expr, mode="float64").item() == function(0.1, 3.0)
    assert evaluate(expr, mode="rounded").item() == float(np.float32(function(float(stored), 3.0)))
    assert evaluate(expr, mode="ordered").item() == float(function(stored, np.float32(3.0)))


def test_only_the_ordered_mode_rounds_every_operation() -> None:
    small = p.const(2.0**-30)
    expr = p.binary(p.binary(p.const(1.0), "+", small), "-", p.const(1.0))
    assert [evaluate(expr, mode=mode).item() for mode in MODES] == [2.0**-30, 2.0**-30, 0]


def test_every_operator_and_function_is_covered() -> None:
    two = p.const(2.0)
    floats = set(BinaryOp) - {BinaryOp.FLOORDIV, BinaryOp.MOD, BinaryOp.AND, BinaryOp.OR}
    for op in floats:
        assert evaluate(p.binary(two, op.value, two), mode="ordered").numel() == 1
    for mode in MODES:
        for function in Function:
            n_args = {Function.FMA: 3, Function.MIN: 2, Function.MAX: 2}.get(function, 1)
            assert evaluate(p.call(function.value, *[two] * n_args), mode=mode).isfinite()


@all_modes
@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        ("exp2", (3.0,), 8.0),
        ("exp", (0.0,), 1.0),
        ("log", (1.0,), 0.0),
        ("rsqrt", (4.0,), 0.5),
        ("sqrt", (9.0,), 3.0),
        ("sigmoid", (0.0,), 0.5),
        ("fma", (2.0, 3.0, 4.0), 10.0),
        ("min", (2.0, -3.0), -3.0),
        ("max", (2.0, -3.0), 2.0),
        ("abs", (-2.5,), 2.5),
    ],
)
def test_functions(function: str, args: tuple[float, ...], expected: float, mode: Mode) -> None:
    assert evaluate(p.call(function, *(p.const(x) for x in args)), mode=mode).item() == expected


def test_functions_have_full_precision_in_float64() -> None:
    assert evaluate(p.call("exp", p.const(1.5)), mode="float64").item() == pytest.approx(math.exp(1.5), rel=1e-15)
    assert evaluate(p.call("log", p.const(1.5)), mode="float64").item() == pytest.approx(math.log(1.5), rel=1e-15)


@all_modes
def test_integer_functions(mode: Mode) -> None:
    assert evaluate(p.call("min", p.letter(COL), p.integer(1)), COL, mode=mode).tolist() == [0, 1, 1]
    assert evaluate(p.call("max", p.letter(COL), p.integer(1)), COL, mode=mode).tolist() == [1, 1, 2]
    with pytest.raises(InternalError, match="exp2 of integers"):
        evaluate(p.call("exp2", p.letter(COL)), COL, mode=mode)


@pytest.mark.parametrize(
    ("dtype", "x", "rounded"),
    [
        (p.BF16, 1 + 2.0**-8 + 2.0**-20, 1 + 2.0**-7),
        (p.BF16, 1 + 2.0**-8, 1.0),
        (p.F16, 1 + 2.0**-11, 1.0),
        (p.TF32, 1 + 2.0**-11, 1 + 2.0**-10),
    ],
)
def test_narrowing_casts(dtype: DType, x: float, rounded: float) -> None:
    expr = p.cast(p.cast(p.const(x), dtype), p.F32)
    assert evaluate(expr, mode="float64").item() == x
    assert evaluate(expr, mode="rounded").item() == rounded
    assert evaluate(expr, mode="ordered").item() == rounded


@all_modes
def test_casts_between_kinds(mode: Mode) -> None:
    assert evaluate(p.cast(p.const(-2.75), p.I32), mode=mode).item() == -2
    assert evaluate(p.cast(p.letter(COL), p.BOOL), COL, mode=mode).tolist() == [False, True, True]
    assert evaluate(p.cast(p.const(True, p.BOOL), p.F32), mode=mode).item() == 1.0
    big = 2**24 + 1
    assert evaluate(p.cast(p.integer(big), p.F32), mode=mode).item() == (big if mode == "float64" else 2**24)


@all_modes
def test_negation(mode: Mode) -> None:
    negative = Unary(op=UnaryOp.NEG, x=p.read(X_TILE, 1, 2), dtype=p.F32, span=p.SPAN)
    assert evaluate(negative, mode=mode).item() == -5


@all_modes
def test_the_dead_arm_never_reaches_the_result(mode: Mode) -> None:
    x = torch.tensor([[1.0, torch.nan, torch.inf], [2.0, 3.0, -torch.inf]])
    keep = p.binary(p.letter(COL), "<=", p.letter(ROW))
    expr = p.select(keep, p.read(X_TILE, ROW, COL), p.const(0.0))
    assert evaluate(expr, ROW, COL, mode=mode, x=x).tolist() == [[1, 0, 0], [2, 3, 0]]
    masked = p.call("exp2", p.select(keep, p.const(1.0), p.const(2000.0)))
    assert evaluate(p.select(keep, masked, p.const(-1.0)), ROW, COL, mode=mode).tolist() == [[2, -1, -1], [2, 2, -1]]


@all_modes
def test_the_dead_arm_is_not_read(mode: Mode) -> None:
    """Its coordinates may lie outside the tensor; a live one there is an error."""
    before = p.binary(p.letter(COL), "-", p.integer(1))
    previous = p.element(X, p.integer(0), before)
    expr = p.select(p.binary(p.letter(COL), ">", p.integer(0)), previous, p.const(9.0))
    assert evaluate(expr, COL, mode=mode).tolist() == [9, 0, 1]
    with pytest.raises(IndexError, match=r"x, axis 1 of \(2, 3\)"):
        evaluate(previous, COL, mode=mode)


@all_modes
def test_an_absent_tensor_is_not_read(mode: Mode) -> None:
    given = Given(tensor=MAYBE, span=p.SPAN)
    read = TensorRead(tensor=MAYBE, coords=(p.letter(COL),), span=p.SPAN)
    expr = p.select(given, read, p.const(-1.0))
    assert evaluate(expr, COL, mode=mode).tolist() == [-1, -1, -1]
    assert evaluate(expr, COL, mode=mode, maybe=torch.ones(3)).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="maybe is used though it was not passed"):
        evaluate(read, COL, mode=mode)


@pytest.mark.parametrize(
    ("mode", "expected"), [("float64", 0.1), ("rounded", 0.10009765625), ("ordered", 0.10009765625)]
)
def test_loads_round_to_the_declared_type(mode: Mode, expected: float) -> None:
    half, out = p.tensor("half", 1, dtype=p.BF16), p.tensor("out", 1, access="out")
    loaded, widened = p.value("loaded", dtype=p.BF16), p.value("widened")
    program = p.program(
        p.load(loaded, half, p.integer(0)),
        p.map_(widened, p.cast(p.read(loaded), p.F32)),
        p.store(out, widened, p.integer(0)),
        tensors=(half, out),
    )
    written = torch.zeros(1, dtype=torch.float64)
    interpret(program, {"half": torch.tensor([0.1], dtype=torch.float64), "out": written}, mode=mode)
    assert written.item() == expected
    interpret(program, {"half": torch.tensor([0.1], dtype=torch.bfloat16), "out": written}, mode=mode)
    assert written.item() == 0.10009765625


def test_window_fields_and_ordinals() -> None:
    n = p.window("n", WindowKind.SEQUENCE)
    c = p.window("c", WindowKind.CHUNK, 2, parent="n")
    block = p.window("vb", WindowKind.BLOCK, 4)
    fields = [p.field(bound, name) for bound in (n, c, block) for name in WindowField]
    numbers: list[Expr] = [*fields, *(p.coordinate(name) for name in ("n", "c", "vb", "hv"))]
    out = p.tensor("out", "NC", len(numbers), dtype=p.I32, access="out")
    body: list[Stmt] = []
    for column, number in enumerate(numbers):
        result = p.value(f"r{column}", dtype=p.I32)
        body += [p.map_(result, number), p.store(out, result, p.coordinate("c"), p.integer(column))]
    loop = ForWindow(window=c, carried=(), body=tuple(body), text="for", span=p.SPAN)
    program = p.program(loop, tensors=(out,), grid=(p.axis("n", "N", n), p.axis("hv", 1), p.axis("vb", 1, block)))
    written = torch.full((3, len(numbers)), -1, dtype=torch.int32)
    tables = {"cu_seqlens": torch.tensor([0, 1, 4]), "seq_chunk_start": torch.tensor([0, 1, 3])}
    interpret(program, {**tables, "out": written}, mode="float64")
    assert written.tolist() == [
        [1, 0, 0, 1, 0, 0, 4, 3, 0, 0, 0, 0, 0],
        [3, 2, 1, 2, 1, 0, 4, 3, 0, 1, 1, 0, 0],
        [3, 2, 1, 1, 0, 2, 4, 3, 0, 1, 2, 0, 0],
    ]
