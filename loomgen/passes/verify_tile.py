"""Verifier of Tile IR: single assignment, scopes, shapes and dtypes.

Holds after every pass over Tile IR: a value is defined once, before its uses and in a block around them; every
subscript fits its axis; every index letter is bound; operands have the dtypes that their operator takes; products,
concatenations and inverses have shapes that agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import assert_never

from loomgen.errors import InternalError
from loomgen.ir import tile, walk
from loomgen.ir.print_tile import print_expr
from loomgen.ir.tile import BinaryOp, Contract, Coord, Expr, Program, Stmt, UnaryOp
from loomgen.ir.types import DType, Index, Value

INVERSE_BLOCK = 16

_LOGIC = frozenset({BinaryOp.AND, BinaryOp.OR})
_COMPARISONS = frozenset({BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE})


def verify_tile(program: Program, pass_name: str) -> None:
    """Raises InternalError naming the pass and the statement."""
    windows = [axis.window for axis in program.grid if axis.window is not None]
    scope = _Scope(
        pass_name=pass_name,
        arguments=frozenset((*program.runtime_dims, *(scalar.name for scalar in program.scalars))),
        tensors=frozenset(program.tensors),
        integers=frozenset(axis.name for axis in program.grid),
        windows=frozenset(window.name for window in windows),
    )
    _Verifier(scope=scope, names=set()).block(program.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """What is visible at a statement; ``values`` grows as a block goes on."""

    pass_name: str
    arguments: frozenset[str]
    tensors: frozenset[tile.Tensor]
    integers: frozenset[str]
    windows: frozenset[str]
    values: dict[str, Value] = field(default_factory=dict)

    def inner(self, loop: str | None = None, *, is_window: bool = False) -> _Scope:
        """A block inside; a loop brings its name, a chunk loop its window too."""
        names = frozenset() if loop is None else frozenset({loop})
        return _Scope(
            pass_name=self.pass_name,
            arguments=self.arguments,
            tensors=self.tensors,
            integers=self.integers | names,
            windows=self.windows | (names if is_window else frozenset()),
            values=dict(self.values),
        )


@dataclass(slots=True, kw_only=True)
class _Verifier:
    scope: _Scope
    names: set[str]  # of all values so far, those that went out of scope included
    text: str = ""

    def require(self, holds: bool, fault: str) -> None:
        if not holds:
            raise InternalError(self.scope.pass_name, f"{fault}, in {self.text!r}")

    # ------------------------------------------------------------------ statements

    def block(self, body: tuple[Stmt, ...]) -> None:
        for stmt in body:
            self.text = stmt.text
            self._statement(stmt)
            self.text = stmt.text
            for value in walk.defined(stmt):
                self._define(value)

    def _define(self, value: Value) -> None:
        self.require(value.name not in self.names, f"{value} is defined twice")
        self.require(len(set(value.indices)) == len(value.indices), f"{value} repeats an index")
        self.names.add(value.name)
        self.scope.values[value.name] = value

    def _statement(self, stmt: Stmt) -> None:
        for expr in walk.expressions(stmt):
            self._expression(expr)
        match stmt:
            case tile.Load():
                self._elementwise(stmt.value, stmt.source, stmt.value.indices)
            case tile.Map():
                self._elementwise(stmt.value, stmt.expr, stmt.value.indices)
            case tile.Reduce():
                self._elementwise(stmt.value, stmt.expr, (*stmt.value.indices, *stmt.over))
            case tile.Scan():
                self.require(stmt.along in stmt.value.indices, f"{stmt.value} is scanned along a letter it has not")
                self._elementwise(stmt.value, stmt.expr, stmt.value.indices)
            case Contract():
                self._contract(stmt)
            case tile.Inverse():
                self._inverse(stmt.value, stmt.source.value, stmt.source.value.shape)
            case tile.DiagonalInverse():
                n_rows = stmt.source.value.shape[0]
                self._inverse(stmt.value, stmt.source.value, (n_rows, INVERSE_BLOCK))
                self.require(
                    n_rows % INVERSE_BLOCK == 0, f"{stmt.source.value} is not cut by blocks of {INVERSE_BLOCK}"
                )
            case tile.Concat():
                self._concat(stmt)
            case tile.Store():
                self._store(stmt)
            case tile.ForWindow():
                self.require(stmt.window.parent in self.scope.windows, f"{stmt.window.parent} is not in scope")
                self._loop(stmt, self.scope.inner(stmt.window.name, is_window=True))
            case tile.ForRange():
                for bound in (stmt.begin, stmt.end):
                    self._uniform(bound, DType.I32)
                self._loop(stmt, self.scope.inner(stmt.name))
            case tile.If():
                self._branch(stmt)
            case _:
                assert_never(stmt)

    def _elementwise(self, value: Value, expr: Expr, bound: tuple[Index, ...]) -> None:
        self.require(expr.dtype is value.dtype, f"{value} is given a {expr.dtype.value}")
        self._bound(expr, bound)

    def _bound(self, expr: Coord, bound: tuple[Index, ...]) -> None:
        unbound = walk.free_indices(expr) - set(bound)
        self.require(not unbound, f"unbound {', '.join(sorted(index.name for index in unbound))}")

    def _uniform(self, expr: Expr, dtype: DType) -> None:
        self.require(expr.dtype is dtype, f"{print_expr(expr)} is not {dtype.value}")
        self._bound(expr, ())

    def _contract(self, stmt: Contract) -> None:
        value, over = stmt.value, stmt.over
        self.require(len(value.indices) == 2, f"product {value} has not two indices")
        rows, cols = value.indices
        self.require(walk.free_indices(stmt.a) == {rows, over}, f"the left operand is not over {rows} and {over}")
        self.require(walk.free_indices(stmt.b) == {cols, over}, f"the right operand is not over {cols} and {over}")
        self.require(stmt.a.dtype is stmt.b.dtype, "the operands of @ differ in dtype")
        self.require(value.dtype is DType.F32, f"product {value} is not f32")
        if stmt.seed is not None:
            self._elementwise(value, stmt.seed, value.indices)

    def _inverse(self, value: Value, source: Value, shape: tuple[int, ...]) -> None:
        is_square = len(source.shape) == 2 and source.shape[0] == source.shape[1]
        self.require(is_square, f"{source} is not square")
        self.require(value.shape == shape, f"{value} is not {shape[0]} x {shape[1]}")

    def _concat(self, stmt: tile.Concat) -> None:
        value, parts = stmt.value, stmt.parts
        self.require(len(value.shape) == 2 and bool(parts), f"{value} is not put together from tiles")
        shape = (value.shape[1], value.shape[0] // len(parts))
        for part in parts:
            self.require(part.shape == shape, f"part {part} is not {shape[0]} x {shape[1]}")
            self.require(part.dtype is value.dtype, f"part {part} differs from {value} in dtype")
        self.require(shape[1] * len(parts) == value.shape[0], f"{value} is not cut into {len(parts)} equal parts")

    def _store(self, stmt: tile.Store) -> None:
        self.require(stmt.tensor in self.scope.tensors, f"{stmt.tensor.name} is no tensor of the program")
        self.require(stmt.tensor.access is not tile.Access.IN, f"{stmt.tensor.name} is an in tensor")
        self.require(stmt.source.dtype is stmt.tensor.dtype, f"{stmt.tensor.name} is given a {stmt.source.dtype.value}")
        self.require(
            len(stmt.coords) == len(stmt.tensor.shape), f"{stmt.tensor.name} has {len(stmt.tensor.shape)} axes"
        )
        letters = tuple(sub.index for sub in stmt.source.subs if sub.index is not None)
        for coord in stmt.coords:
            self._bound(coord, letters)

    # ------------------------------------------------------------------ blocks

    def _loop(self, stmt: tile.ForWindow | tile.ForRange, inner: _Scope) -> None:
        outer = self.scope
        for carry in stmt.carried:
            self._known(carry.init)
            self._alike(carry.init, carry.inner, carry.update, carry.result)
        self.scope = inner
        for carry in stmt.carried:
            self._define(carry.inner)
        self.block(stmt.body)
        self.text = stmt.text
        for carry in stmt.carried:
            self._known(carry.update)
        self.scope = outer

    def _branch(self, stmt: tile.If) -> None:
        self._uniform(stmt.cond, DType.BOOL)
        outer = self.scope
        for body, sides in (
            (stmt.then, [merge.then for merge in stmt.merges]),
            (stmt.orelse, [merge.orelse for merge in stmt.merges]),
        ):
            self.scope = outer.inner()
            self.block(body)
            self.text = stmt.text
            for side in sides:
                self._known(side)
        self.scope = outer
        for merge in stmt.merges:
            self._alike(merge.then, merge.orelse, merge.result)

    def _alike(self, *values: Value) -> None:
        first = values[0]
        for value in values[1:]:
            same = value.dtype is first.dtype and value.indices == first.indices
            self.require(same, f"{value} takes over from {first}")

    def _known(self, value: Value) -> None:
        self.require(self.scope.values.get(value.name) == value, f"{value} is not defined here")

    # ------------------------------------------------------------------ expressions

    def _expression(self, root: Coord) -> None:
        for node in walk.nodes(root):
            if isinstance(node, tile.WindowCoord):
                self.require(node.window.name in self.scope.windows, f"window {node.window.name} is not in scope")
                self.require(node.offset.dtype is DType.I32, f"{print_expr(node.offset)} is not i32")
                continue
            self._node(node)

    def _node(self, node: Expr) -> None:
        match node:
            case tile.TileRead():
                self._known(node.value)
                self._subscripts(node)
            case tile.ArgRead():
                self.require(node.name in self.scope.arguments, f"{node.name} is no argument")
            case tile.GridRead():
                self.require(node.name in self.scope.integers, f"{node.name} is not in scope")
            case tile.WindowRead():
                self.require(node.window.name in self.scope.windows, f"window {node.window.name} is not in scope")
            case tile.Given():
                self.require(node.tensor in self.scope.tensors, f"{node.tensor.name} is no tensor of the program")
            case tile.TensorRead():
                self.require(node.tensor in self.scope.tensors, f"{node.tensor.name} is no tensor of the program")
                n_axes = len(node.tensor.shape)
                self.require(len(node.coords) == n_axes, f"{node.tensor.name} has {n_axes} axes")
            case tile.Unary() | tile.Binary() | tile.Select() | tile.Call():
                self._operands(node)
            case tile.Const() | tile.IndexRead() | tile.Cast():
                pass
            case _:
                assert_never(node)

    def _subscripts(self, read: tile.TileRead) -> None:
        axes = read.value.indices
        self.require(len(read.subs) == len(axes), f"{read.value} has {len(axes)} axes")
        for axis, sub in zip(axes, read.subs, strict=True):
            end = sub.offset + (1 if sub.index is None else sub.index.extent)
            self.require(sub.offset >= 0 and end <= axis.extent, f"{print_expr(read)} reaches past axis {axis}")

    def _operands(self, node: tile.Unary | tile.Binary | tile.Select | tile.Call) -> None:
        given: tuple[DType, ...]
        wanted: tuple[DType, ...]
        match node:
            case tile.Unary():
                given, wanted = (node.x.dtype,), (DType.BOOL if node.op is UnaryOp.NOT else node.dtype,)
            case tile.Binary():
                given, wanted = (node.a.dtype, node.b.dtype), (_operand_dtype(node),) * 2
                is_bool = node.op in _COMPARISONS or node.op in _LOGIC
                self.require(not is_bool or node.dtype is DType.BOOL, f"{print_expr(node)} is no bool")
            case tile.Select():
                given = (node.cond.dtype, node.then.dtype, node.orelse.dtype)
                wanted = (DType.BOOL, node.dtype, node.dtype)
            case tile.Call():
                given, wanted = tuple(arg.dtype for arg in node.args), (node.dtype,) * len(node.args)
            case _:
                assert_never(node)
        shown = ", ".join(dtype.value for dtype in given)
        self.require(given == wanted, f"operands {shown} of {print_expr(node)}")


def _operand_dtype(node: tile.Binary) -> DType:
    """What both operands must be."""
    if node.op in _COMPARISONS:
        return node.a.dtype
    return DType.BOOL if node.op in _LOGIC else node.dtype
