"""Element expressions in device code. Where a tile's element comes from is the caller's: :class:`Elements`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from typing_extensions import assert_never

from loomgen.errors import InternalError
from loomgen.ir import tile
from loomgen.ir.device import Braces, CExpr, Infix, Literal, Prefix, Ternary, add, call, name, num
from loomgen.ir.tile import BinaryOp, Expr, Function, TileRead, UnaryOp, WindowField
from loomgen.ir.types import DType, Index
from loomgen.passes.lower.addresses import address
from loomgen.passes.lower.windows import WindowScope


class Elements(Protocol):
    """What one thread calls an index letter and an element of a tile."""

    def index(self, index: Index) -> CExpr: ...

    def element(self, read: TileRead) -> CExpr:
        """The element's value: a float for every floating type (a 16-bit one is widened), else its integer."""
        ...


_FUNCTIONS = {
    Function.EXP2: "exp2_approx",
    Function.EXP: "exp_approx",
    Function.LOG: "log_approx",
    Function.RSQRT: "rsqrt_approx",
    Function.SQRT: "sqrt_rn",
    Function.FMA: "fma_rn",
    Function.MIN: "min_f32",
    Function.MAX: "max_f32",
    Function.ABS: "abs_f32",
}
_ONE = Literal(text="1.0f")
_OPERATORS = {BinaryOp.FLOORDIV: "/", BinaryOp.AND: "&&", BinaryOp.OR: "||"}
NARROW = {DType.BF16: "to_bf16", DType.F16: "to_f16"}
PACK = {DType.BF16: "pack_bf16", DType.F16: "pack_f16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExprLowering:
    """Lowers expressions for one thread's element; ``hoisted`` maps expressions to variables that hold them, ``named``
    those of the spec's ``where``.
    """

    elements: Elements
    windows: WindowScope
    hoisted: dict[Expr, CExpr] = field(default_factory=dict)
    named: dict[Expr, CExpr] = field(default_factory=dict)

    def integer(self, expr: Expr) -> CExpr:
        return self.lower(expr)

    def unrounded(self, expr: Expr) -> CExpr:
        """A 16-bit expression as the float before its last rounding, which packing or storing then carries out."""
        match expr:
            case tile.Cast(x=x) if x.dtype is DType.F32:
                return self.lower(x)
            case tile.Select():
                return Ternary(
                    cond=self.lower(expr.cond), then=self.unrounded(expr.then), orelse=self.unrounded(expr.orelse)
                )
            case _:
                return self.wide(expr)

    def wide(self, expr: Expr) -> CExpr:
        """A 16-bit expression's value as a float."""
        if expr in self.hoisted:
            return self.hoisted[expr]
        match expr:
            case TileRead():
                return self.elements.element(expr)
            case tile.Const():
                return self._constant(expr)
            case _:
                return call("to_f32", self.lower(expr))

    def as_float(self, expr: Expr) -> CExpr:
        """A floating expression's value as a float."""
        return self.wide(expr) if expr.dtype.is_half else self.lower(expr)

    def lower(self, expr: Expr) -> CExpr:
        """An expression in its own type: float, int32_t, bool, or bf16 / f16."""
        if expr in self.hoisted:
            found = self.hoisted[expr]
            return call(NARROW[expr.dtype], found) if expr.dtype.is_half else found
        if expr in self.named:
            return self.named[expr]
        match expr:
            case TileRead():
                element = self.elements.element(expr)
                return call(NARROW[expr.dtype], element) if expr.dtype.is_half else element
            case tile.Const():
                constant = self._constant(expr)
                return call(NARROW[expr.dtype], constant) if expr.dtype.is_half else constant
            case tile.ArgRead():
                return name(expr.name)
            case tile.IndexRead():
                return self.elements.index(expr.index)
            case tile.GridRead():
                window = self.windows.find(expr.name)
                return name(expr.name) if window is None else window.ordinal
            case tile.WindowRead():
                return self._window_field(expr)
            case tile.Given():
                return Infix(op="!=", a=name(expr.tensor.name), b=Literal(text="nullptr"))
            case tile.TensorRead():
                return self._tensor_element(expr)
            case tile.Unary():
                return Prefix(op="!" if expr.op is UnaryOp.NOT else "-", x=self.lower(expr.x))
            case tile.Binary():
                return self._binary(expr)
            case tile.Call():
                return self._call(expr)
            case tile.Select():
                return Ternary(cond=self.lower(expr.cond), then=self.lower(expr.then), orelse=self.lower(expr.orelse))
            case tile.Cast():
                return self._cast(expr)
            case _:
                assert_never(expr)

    def _constant(self, expr: tile.Const) -> CExpr:
        if expr.dtype is DType.BOOL:
            return Literal(text="true" if expr.value else "false")
        if expr.dtype.is_float:
            return Literal(text=f"{float(expr.value)!r}f")
        return num(int(expr.value))

    def _window_field(self, expr: tile.WindowRead) -> CExpr:
        names = self.windows[expr.window]
        match expr.field:
            case WindowField.LEN:
                return names.length
            case WindowField.LAST:
                return add(names.length, num(-1))
            case WindowField.POS:
                return names.pos
            case _:
                assert_never(expr.field)

    def _tensor_element(self, expr: tile.TensorRead) -> CExpr:
        place = address(expr.tensor, expr.coords, self, is_store=False)
        value: CExpr = call("ld_global", place.pointer())
        if place.guard is None:
            return value
        if expr.dtype.is_half:
            zero: CExpr = Braces(items=(num(0),), type=expr.dtype.value)
        elif expr.dtype is DType.BOOL:
            zero = Literal(text="false")
        else:
            zero = Literal(text="0.0f" if expr.dtype.is_float else "0")
        return Ternary(cond=place.guard, then=value, orelse=zero)

    def _binary(self, expr: tile.Binary) -> CExpr:
        a, b = self.lower(expr.a), self.lower(expr.b)
        if expr.dtype is DType.F32 and expr.op is BinaryOp.DIV:
            return call("div_rn", a, b)
        if expr.op is BinaryOp.ADD and expr.dtype is DType.I32:
            return add(a, b)
        return Infix(op=_OPERATORS.get(expr.op, expr.op.value), a=a, b=b)

    def _call(self, expr: tile.Call) -> CExpr:
        args = tuple(self.lower(arg) for arg in expr.args)
        if expr.dtype.is_float:
            if expr.function is Function.SIGMOID:
                exponential = call("exp_approx", Prefix(op="-", x=args[0]))
                return call("div_rn", _ONE, Infix(op="+", a=_ONE, b=exponential))
            return call(_FUNCTIONS[expr.function], *args)
        if expr.function in (Function.MIN, Function.MAX):
            op = "<" if expr.function is Function.MIN else ">"
            return Ternary(cond=Infix(op=op, a=args[0], b=args[1]), then=args[0], orelse=args[1])
        raise InternalError("lower", f"no device code for {expr.function.value} of {expr.dtype.value}")

    def _cast(self, expr: tile.Cast) -> CExpr:
        source, target = expr.x.dtype, expr.dtype
        if source is target:
            return self.lower(expr.x)
        if source.is_half and target is DType.F32:
            return self.wide(expr.x)
        if target.is_half:
            return call(NARROW[target], self.as_float(expr.x))
        if target is DType.TF32:
            return call("from_bits", call("to_tf32", self.as_float(expr.x)))
        if source is DType.TF32 and target is DType.F32:
            return self.lower(expr.x)
        casts = {DType.F32: "float", DType.I32: "int32_t", DType.I64: "int64_t"}
        return call(casts[target], self.as_float(expr.x))
