"""The typing rules: widening is inserted here, narrowing must be written, arithmetic on floats is fp32."""

from __future__ import annotations

import struct

from loomgen.errors import Span
from loomgen.ir.tile import Binary, BinaryOp, Call, Cast, Const, Expr, Function, Select, Unary, UnaryOp
from loomgen.ir.types import DType
from loomgen.spec.codes import Code
from loomgen.spec.report import Reject

_WIDER = {DType.BF16: DType.F32, DType.F16: DType.F32, DType.TF32: DType.F32, DType.I32: DType.I64}
_LOGIC = frozenset({BinaryOp.AND, BinaryOp.OR})
_ORDER = frozenset({BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE})
_INTEGER_ONLY = frozenset({BinaryOp.FLOORDIV, BinaryOp.MOD})
_N_ARGS = {Function.FMA: 3, Function.MIN: 2, Function.MAX: 2}
_ANY_NUMBER = frozenset({Function.MIN, Function.MAX, Function.ABS})


def is_integer(dtype: DType) -> bool:
    return dtype in (DType.I32, DType.I64)


def constant(value: int | float, want: DType | None, span: Span) -> Const:
    """A literal takes the dtype of its surroundings; alone, 1.5 is f32 and 1 is i32. Raises :class:`Reject`."""
    dtype = want or (DType.F32 if isinstance(value, float) else DType.I32)
    if dtype is DType.BOOL:
        raise Reject(Code.NOT_A_CONDITION, span, f"`{value}` is a number, not a condition")
    if is_integer(dtype):
        if isinstance(value, float):
            raise Reject(Code.MIXED_DTYPES, span, f"`{value}` among integers ({dtype.value})")
        return Const(value=value, dtype=dtype, span=span)
    if dtype.is_half and not _is_exact(float(value), dtype):
        raise Reject(
            Code.NARROWING, span, f"`{value}` is not a {dtype.value} number", f"write `{dtype.value}({value})`"
        )
    return Const(value=float(value), dtype=dtype, span=span)


def _is_exact(value: float, dtype: DType) -> bool:
    if dtype is DType.F16:
        return abs(value) <= 65504 and bool(struct.unpack("e", struct.pack("e", value))[0] == value)
    low_bits = struct.unpack("<I", struct.pack("<f", value))[0] & 0xFFFF
    return low_bits == 0 and bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)


def can_widen(source: DType, target: DType) -> bool:
    return source is target or _WIDER.get(source) is target


def widen(x: Expr, dtype: DType) -> Expr:
    """``x`` as ``dtype``, which it has or widens to."""
    return x if x.dtype is dtype else Cast(x=x, dtype=dtype, span=x.span)


def cast(x: Expr, dtype: DType, span: Span) -> Expr:
    """The written conversion ``bf16(x)``; one to the dtype that ``x`` has is nothing. Raises :class:`Reject`."""
    if x.dtype is dtype:
        return x
    if x.dtype is DType.BOOL or (x.dtype.is_float and not dtype.is_float):
        raise Reject(Code.BAD_OPERAND, span, f"no conversion from {x.dtype.value} to {dtype.value}")
    return Cast(x=x, dtype=dtype, span=span)


def unify(a: Expr, b: Expr, span: Span, *, arithmetic: bool) -> tuple[Expr, Expr]:
    """Both with one dtype: equal ones stay unless it is 16-bit arithmetic; floats meet in f32. Raises Reject."""
    if a.dtype is b.dtype and not (arithmetic and a.dtype.is_float):
        return a, b
    if a.dtype.is_float and b.dtype.is_float:
        return widen(a, DType.F32), widen(b, DType.F32)
    if is_integer(a.dtype) and is_integer(b.dtype):
        return widen(a, DType.I64), widen(b, DType.I64)
    hint = "convert explicitly, as in `f32(n)`" if DType.BOOL not in (a.dtype, b.dtype) else None
    raise Reject(Code.MIXED_DTYPES, span, f"{a.dtype.value} and {b.dtype.value} do not mix", hint)


def binary(op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr:
    """``a op b`` with the widening that it needs. Raises :class:`Reject`."""
    if op in _LOGIC:
        return Binary(op=op, a=condition(a), b=condition(b), dtype=DType.BOOL, span=span)
    if a.dtype is DType.BOOL and b.dtype is DType.BOOL:
        raise Reject(Code.BAD_OPERAND, span, f"`{op.value}` is not defined on conditions")
    a, b = unify(a, b, span, arithmetic=True)
    wrong = (op in _INTEGER_ONLY and a.dtype.is_float) or (op is BinaryOp.DIV and not a.dtype.is_float)
    if wrong:
        hint = "integers divide with `//`, floats with `/`"
        raise Reject(Code.BAD_OPERAND, span, f"`{op.value}` is not defined on {a.dtype.value}", hint)
    return Binary(op=op, a=a, b=b, dtype=DType.BOOL if op in _ORDER else a.dtype, span=span)


def negation(x: Expr, span: Span) -> Expr:
    if x.dtype is DType.BOOL:
        raise Reject(Code.BAD_OPERAND, span, "`-` is not defined on conditions", "write `not x`")
    x = widen(x, DType.F32) if x.dtype.is_float else x
    return Unary(op=UnaryOp.NEG, x=x, dtype=x.dtype, span=span)


def inversion(x: Expr, span: Span) -> Expr:
    return Unary(op=UnaryOp.NOT, x=condition(x), dtype=DType.BOOL, span=span)


def condition(x: Expr) -> Expr:
    """``x``, if it is a condition. Raises :class:`Reject`."""
    if x.dtype is DType.BOOL:
        return x
    hint = "compare it: `x != 0`" if is_integer(x.dtype) else None
    raise Reject(Code.NOT_A_CONDITION, x.span, f"a {x.dtype.value} is not a condition", hint)


def select(cond: Expr, then: Expr, orelse: Expr, span: Span) -> Expr:
    then, orelse = unify(then, orelse, span, arithmetic=False)
    return Select(cond=condition(cond), then=then, orelse=orelse, dtype=then.dtype, span=span)


def call(function: Function, args: tuple[Expr, ...], span: Span) -> Expr:
    """A function of element expressions: f32, and min, max, abs of integers too. Raises :class:`Reject`."""
    if any(arg.dtype is DType.BOOL for arg in args):
        raise Reject(Code.BAD_OPERAND, span, f"`{function.value}` is not defined on conditions")
    if all(is_integer(arg.dtype) for arg in args) and function in _ANY_NUMBER:
        dtype = DType.I64 if any(arg.dtype is DType.I64 for arg in args) else DType.I32
    elif all(arg.dtype.is_float for arg in args):
        dtype = DType.F32
    else:
        given = ", ".join(arg.dtype.value for arg in args)
        raise Reject(Code.BAD_OPERAND, span, f"`{function.value}` is not defined on ({given})")
    return Call(function=function, args=tuple(widen(arg, dtype) for arg in args), dtype=dtype, span=span)


def n_arguments(function: Function) -> int:
    return _N_ARGS.get(function, 1)
