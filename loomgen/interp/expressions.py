"""Element expressions evaluated over all indices of a statement at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from typing_extensions import assert_never

from loomgen.errors import InternalError
from loomgen.interp.arguments import Arguments, Buffer
from loomgen.interp.arithmetic import Arithmetic
from loomgen.interp.tiles import Array, Axes, index_values, read_tile
from loomgen.interp.windows import Extent
from loomgen.ir.tile import (
    ArgRead,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Const,
    Coord,
    Expr,
    Function,
    Given,
    GridRead,
    IndexRead,
    Select,
    Tensor,
    TensorRead,
    TileRead,
    Unary,
    UnaryOp,
    WindowCoord,
    WindowRead,
)
from loomgen.ir.types import DType

_BINARY: Mapping[BinaryOp, Callable[[Array, Array], Array]] = {
    BinaryOp.ADD: np.add,
    BinaryOp.SUB: np.subtract,
    BinaryOp.MUL: np.multiply,
    BinaryOp.DIV: np.divide,
    BinaryOp.FLOORDIV: np.floor_divide,
    BinaryOp.MOD: np.remainder,
    BinaryOp.AND: np.logical_and,
    BinaryOp.OR: np.logical_or,
    BinaryOp.EQ: np.equal,
    BinaryOp.NE: np.not_equal,
    BinaryOp.LT: np.less,
    BinaryOp.LE: np.less_equal,
    BinaryOp.GT: np.greater,
    BinaryOp.GE: np.greater_equal,
}

_INTEGER_FUNCTIONS: Mapping[Function, Callable[..., Array]] = {
    Function.MIN: np.minimum,
    Function.MAX: np.maximum,
    Function.ABS: np.abs,
}

ALL = np.asarray(True)
"""Every element is live."""

Positions = tuple[Array, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What names stand for inside one grid cell; the three dicts grow and change as statements run."""

    arguments: Arguments
    arithmetic: Arithmetic
    values: dict[str, Array]
    windows: dict[str, Extent]
    integers: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """Evaluates expressions for all values of ``axes``.

    ``live`` marks the elements whose result matters: the others are not read from tensors, and may be anything.
    """

    scope: Scope
    axes: Axes

    def evaluate(self, expr: Expr, live: Array = ALL) -> Array:
        """The expression's elements, 0-dimensional or broadcasting over the axes: carrier floats, i64 or bool."""
        match expr:
            case TileRead():
                return read_tile(self.scope.values[expr.value.name], expr.subs, self.axes)
            case Const():
                return self._typed(expr.value, expr.dtype)
            case ArgRead():
                return self._typed(self.scope.arguments.scalars[expr.name], expr.dtype)
            case IndexRead():
                return index_values(expr.index, self.axes)
            case GridRead():
                return np.asarray(self._grid_value(expr.name))
            case WindowRead():
                return np.asarray(self.scope.windows[expr.window.name].field(expr.field))
            case Given():
                return np.asarray(self.scope.arguments.buffers[expr.tensor.name] is not None)
            case TensorRead():
                return self._read_tensor(expr, live)
            case Unary():
                return self._unary(expr, live)
            case Binary():
                return np.asarray(_BINARY[expr.op](self.evaluate(expr.a, live), self.evaluate(expr.b, live)))
            case Call():
                return self._call(expr, live)
            case Select():
                return self._select(expr, live)
            case Cast():
                return self._cast(self.evaluate(expr.x, live), expr.x.dtype, expr.dtype)
            case _:
                assert_never(expr)

    def locate(self, tensor: Tensor, coords: tuple[Coord, ...], live: Array, *, write: bool) -> tuple[Positions, Array]:
        """Positions of ``coords`` in the tensor, and which of them exist: those live and inside the windows.

        Windows bound a read by their parent, a write by themselves. Raises IndexError where an existing element
        lies outside the tensor; elements that do not exist get position 0.
        """
        shape = self.buffer(tensor).storage.shape
        exists = live
        positions = []
        for coord, size in zip(coords, shape, strict=True):
            if isinstance(coord, WindowCoord):
                window = self.scope.windows[coord.window.name]
                position = window.start + self.evaluate(coord.offset, live)
                exists = exists & (window.owns(position) if write else window.may_read(position, size))
            else:
                position = self.evaluate(coord, live)
            positions.append(position)
        for axis, (position, size) in enumerate(zip(positions, shape, strict=True)):
            if np.any(exists & ((position < 0) | (position >= size))):
                raise IndexError(f"{tensor.name}, axis {axis} of {shape}: a coordinate lies outside")
        return tuple(np.where(exists, position, 0) for position in positions), np.asarray(exists)

    def buffer(self, tensor: Tensor) -> Buffer:
        buffer = self.scope.arguments.buffers[tensor.name]
        if buffer is None:
            raise ValueError(f"{tensor.name} is used though it was not passed")
        return buffer

    def _grid_value(self, name: str) -> int:
        if name in self.scope.integers:
            return self.scope.integers[name]
        ordinal = self.scope.windows[name].ordinal
        if ordinal is None:
            raise ValueError(f"the ordinal of window {name} is read but its table was not passed")
        return ordinal

    def _typed(self, value: int | float | bool, dtype: DType) -> Array:
        if dtype.is_float:
            return self.scope.arithmetic.round(np.asarray(value, dtype=np.float64), dtype)
        return np.asarray(value, dtype=np.bool_ if dtype is DType.BOOL else np.int64)

    def _read_tensor(self, expr: TensorRead, live: Array) -> Array:
        buffer = self.buffer(expr.tensor)
        positions, exists = self.locate(expr.tensor, expr.coords, live, write=False)
        if not exists.any():
            return self._typed(0, expr.dtype)
        elements = buffer.gather(positions)
        if expr.dtype.is_float and buffer.is_as_declared:
            elements = elements.astype(self.scope.arithmetic.carrier)
        elif expr.dtype.is_float:
            elements = self.scope.arithmetic.round(elements, expr.dtype)
        return np.where(exists, elements, self._typed(0, expr.dtype))

    def _unary(self, expr: Unary, live: Array) -> Array:
        x = self.evaluate(expr.x, live)
        match expr.op:
            case UnaryOp.NEG:
                return np.asarray(-x)
            case UnaryOp.NOT:
                return np.logical_not(x)
            case _:
                assert_never(expr.op)

    def _call(self, expr: Call, live: Array) -> Array:
        args = tuple(self.evaluate(arg, live) for arg in expr.args)
        if expr.dtype.is_float:
            return self.scope.arithmetic.call(expr.function, args)
        if expr.function not in _INTEGER_FUNCTIONS:
            raise InternalError("interp", f"{expr.function.value} of integers")
        return np.asarray(_INTEGER_FUNCTIONS[expr.function](*args))

    def _select(self, expr: Select, live: Array) -> Array:
        cond = self.evaluate(expr.cond, live)
        if cond.size == 1:
            return self.evaluate(expr.then if cond.item() else expr.orelse, live)
        then = self.evaluate(expr.then, live & cond)
        orelse = self.evaluate(expr.orelse, live & ~cond)
        return np.where(cond, then, orelse)

    def _cast(self, x: Array, source: DType, target: DType) -> Array:
        if target is DType.BOOL:
            return np.asarray(x != 0)
        if not target.is_float:
            return x.astype(np.int64)
        if _holds_all_of(target, source):
            return x
        return self.scope.arithmetic.round(np.asarray(x, dtype=np.float64), target)


def _holds_all_of(wide: DType, narrow: DType) -> bool:
    if wide is DType.F32:
        return narrow.is_float
    return wide is narrow or (wide is DType.TF32 and narrow.is_half)
