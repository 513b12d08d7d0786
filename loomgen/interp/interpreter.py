"""The Tile IR interpreter: runs a program cell by cell, statement by statement, tiles as numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from typing_extensions import assert_never

from loomgen.errors import InternalError
from loomgen.interp.arguments import Argument, Arguments, bind
from loomgen.interp.arithmetic import Arithmetic, Float64, Ordered, Rounded
from loomgen.interp.expressions import ALL, Elements, Scope
from loomgen.interp.functions import largest
from loomgen.interp.tiles import Array, Axes
from loomgen.interp.windows import chunk_extents, grid_extent
from loomgen.ir import tile, walk
from loomgen.ir.order import ContractOrder, Order, ReduceOrder
from loomgen.ir.types import Index, Value

Mode = Literal["float64", "rounded", "ordered"]

_ARITHMETICS: Mapping[Mode, type[Arithmetic]] = {"float64": Float64, "rounded": Rounded, "ordered": Ordered}

_BLOCK = 16


def interpret(
    program: tile.Program,
    arguments: Mapping[str, Argument],
    *,
    mode: Mode,
    orders: Mapping[str, Order] | None = None,
) -> None:
    """Runs ``program`` and writes its results into the out and inout tensors of ``arguments``.

    ``arguments``: CPU tensors by name (None for an absent optional one), scalars, and the i32 window tables that the
    program's windows need (``cu_seqlens``, ``chunk_start``, ``chunk_len``, ``seq_chunk_start``). Run-time dims are
    read off the shapes. A tensor may be of another floating type than declared, float64 to see unrounded results.

    ``mode``: "float64" rounds nothing; "rounded" computes in float64 and rounds at every conversion, load and store;
    "ordered" does every operation in fp32 as a kernel does, contractions and reductions in the order that ``orders``
    gives for the value's name (by default the operand type's, and ascending). Grid cells run in ascending order;
    surplus chunks, of length 0 in the tables, do not run.

    Raises ValueError for arguments that do not fit the program and IndexError for a coordinate outside its tensor.
    """
    bound = bind(program, arguments)
    runner = _Runner(arithmetic=_ARITHMETICS[mode](), orders=orders or {})
    with np.errstate(all="ignore"):
        for scope in _cells(program, bound, runner.arithmetic):
            runner.run(program.body, scope)


def _cells(program: tile.Program, arguments: Arguments, arithmetic: Arithmetic) -> Iterator[Scope]:
    """A fresh scope for every grid cell that has work."""
    counts = (_count(axis, arguments) for axis in program.grid)
    for coordinates in product(*(range(count) for count in counts)):
        scope = Scope(arguments=arguments, arithmetic=arithmetic, values={}, windows={}, integers={})
        for axis, coordinate in zip(program.grid, coordinates, strict=True):
            if axis.window is None:
                scope.integers[axis.name] = coordinate
            else:
                scope.windows[axis.window.name] = grid_extent(axis.window, coordinate, arguments.tables)
        if not any(_is_surplus(axis.window, scope) for axis in program.grid):
            yield scope


def _is_surplus(window: tile.Window | None, scope: Scope) -> bool:
    """Grids may be launched for a bound on the number of chunks; those past the last have length 0."""
    return window is not None and window.kind is tile.WindowKind.CHUNK and scope.windows[window.name].length == 0


def _count(axis: tile.GridAxis, arguments: Arguments) -> int:
    if isinstance(axis.count, int):
        return axis.count
    if axis.count not in arguments.scalars:
        raise ValueError(f"the size of {axis.count}, the extent of grid axis {axis.name}, is not known")
    return int(arguments.scalars[axis.count])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runner:
    """Executes statements in a scope."""

    arithmetic: Arithmetic
    orders: Mapping[str, Order]

    def run(self, statements: tuple[tile.Stmt, ...], scope: Scope) -> None:
        for stmt in statements:
            self._execute(stmt, scope)

    def _execute(self, stmt: tile.Stmt, scope: Scope) -> None:
        match stmt:
            case tile.Load():
                _assign(scope, stmt.value, _evaluate(scope, stmt.source, stmt.value.indices))
            case tile.Map():
                _assign(scope, stmt.value, _evaluate(scope, stmt.expr, stmt.value.indices))
            case tile.Contract():
                _assign(scope, stmt.value, self._contract(stmt, scope))
            case tile.Reduce():
                _assign(scope, stmt.value, self._reduce(stmt, scope))
            case tile.Scan():
                _assign(scope, stmt.value, self._scan(stmt, scope))
            case tile.Inverse():
                source = _evaluate(scope, stmt.source, stmt.value.indices)
                _assign(scope, stmt.value, self.arithmetic.unit_lower_inverse(source))
            case tile.DiagonalInverse():
                _assign(scope, stmt.value, self._diagonal_inverse(stmt, scope))
            case tile.Concat():
                parts = [scope.values[part.name].T for part in stmt.parts]
                _assign(scope, stmt.value, np.concatenate(parts))
            case tile.Store():
                _store(stmt, scope)
            case tile.ForWindow():
                self._for_window(stmt, scope)
            case tile.ForRange():
                self._for_range(stmt, scope)
            case tile.If():
                self._if(stmt, scope)
            case _:
                assert_never(stmt)

    def _contract(self, stmt: tile.Contract, scope: Scope) -> Array:
        row, column = stmt.value.indices
        a = _evaluate(scope, stmt.a, (row, stmt.over))
        b = _evaluate(scope, stmt.b, (column, stmt.over))
        seed = None if stmt.seed is None else _evaluate(scope, stmt.seed, stmt.value.indices)
        order = self.orders.get(stmt.value.name)
        return self.arithmetic.contract(a, b, seed, stmt.a.dtype, order if isinstance(order, ContractOrder) else None)

    def _reduce(self, stmt: tile.Reduce, scope: Scope) -> Array:
        kept = stmt.value.indices
        elements = _spread(_evaluate(scope, stmt.expr, (*kept, *stmt.over)), (*kept, *stmt.over))
        flat = elements.reshape(*stmt.value.shape, -1)
        match stmt.op:
            case tile.ReduceOp.SUM:
                order = self.orders.get(stmt.value.name)
                return self.arithmetic.total(flat, order if isinstance(order, ReduceOrder) else None)
            case tile.ReduceOp.MAX:
                return largest(flat)
            case _:
                assert_never(stmt.op)

    def _scan(self, stmt: tile.Scan, scope: Scope) -> Array:
        elements = _spread(_evaluate(scope, stmt.expr, stmt.value.indices), stmt.value.indices)
        axis = stmt.value.indices.index(stmt.along)
        match stmt.op:
            case tile.ScanOp.CUMSUM:
                return self.arithmetic.running_sum(elements, axis)
            case tile.ScanOp.SUFFIX_SUM:
                return np.flip(self.arithmetic.running_sum(np.flip(elements, axis), axis), axis)
            case _:
                assert_never(stmt.op)

    def _diagonal_inverse(self, stmt: tile.DiagonalInverse, scope: Scope) -> Array:
        source = scope.values[stmt.source.value.name]
        starts = range(0, source.shape[0], _BLOCK)
        blocks = np.stack([source[at : at + _BLOCK, at : at + _BLOCK] for at in starts])
        inverses = self.arithmetic.diagonal_inverses(blocks).reshape(-1, _BLOCK)
        return self.arithmetic.round(inverses, stmt.value.dtype)

    def _for_window(self, stmt: tile.ForWindow, scope: Scope) -> None:
        if stmt.window.parent is None:
            raise InternalError("interp", f"the loop window {stmt.window.name} has no parent")
        parent, tables = scope.windows[stmt.window.parent], scope.arguments.tables
        extents = chunk_extents(stmt.window, parent, tables, is_reversed=stmt.is_reversed)

        def iterations() -> Iterator[None]:
            for extent in extents:
                scope.windows[stmt.window.name] = extent
                yield

        self._loop(stmt.carried, stmt.body, scope, iterations())

    def _for_range(self, stmt: tile.ForRange, scope: Scope) -> None:
        begin, end = (int(_evaluate(scope, bound, ())) for bound in (stmt.begin, stmt.end))

        def iterations() -> Iterator[None]:
            for value in range(begin, end):
                scope.integers[stmt.name] = value
                yield

        self._loop(stmt.carried, stmt.body, scope, iterations())

    def _loop(
        self, carried: tuple[tile.Carry, ...], body: tuple[tile.Stmt, ...], scope: Scope, iterations: Iterator[None]
    ) -> None:
        _rename(scope, carried, lambda carry: (carry.init, carry.inner))
        for _ in iterations:
            self.run(body, scope)
            _rename(scope, carried, lambda carry: (carry.update, carry.inner))
        _rename(scope, carried, lambda carry: (carry.inner, carry.result))

    def _if(self, stmt: tile.If, scope: Scope) -> None:
        taken = bool(_evaluate(scope, stmt.cond, ()))
        self.run(stmt.then if taken else stmt.orelse, scope)
        for merge in stmt.merges:
            scope.values[merge.result.name] = scope.values[(merge.then if taken else merge.orelse).name]


def _rename(scope: Scope, carried: tuple[tile.Carry, ...], pair: Callable[[tile.Carry], tuple[Value, Value]]) -> None:
    """All at once, since one carried value's update may be another's inner version."""
    pairs = [pair(carry) for carry in carried]
    scope.values.update({new.name: scope.values[old.name] for old, new in pairs})


def _evaluate(scope: Scope, expr: tile.Expr, axes: Axes) -> Array:
    return Elements(scope=scope, axes=axes).evaluate(expr)


def _spread(elements: Array, axes: Axes) -> Array:
    """``elements`` with every axis at its full extent."""
    return np.broadcast_to(elements, [axis.extent for axis in axes])


def _assign(scope: Scope, value: Value, elements: Array) -> None:
    scope.values[value.name] = _spread(elements, value.indices)


def _store(stmt: tile.Store, scope: Scope) -> None:
    axes = _store_axes(stmt)
    elements = Elements(scope=scope, axes=axes)
    source = elements.evaluate(stmt.source)
    if stmt.tensor.dtype.is_float:
        source = scope.arithmetic.round(source, stmt.tensor.dtype)
    positions, exists = elements.locate(stmt.tensor, stmt.coords, ALL, write=True)
    wanted = _spread(exists, axes)
    targets = tuple(_spread(position, axes)[wanted] for position in positions)
    elements.buffer(stmt.tensor).scatter(targets, _spread(source, axes)[wanted])


def _store_axes(stmt: tile.Store) -> Axes:
    """The index letters of a store, by name."""
    letters: set[Index] = set()
    for expr in (*stmt.coords, stmt.source):
        letters |= walk.free_indices(expr)
    return tuple(sorted(letters, key=lambda index: index.name))
