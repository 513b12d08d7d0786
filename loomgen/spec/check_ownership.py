"""Ownership on Tile IR: every element of an output has one writer, and optional tensors are tested before use.

Holds afterwards: a store's coordinates determine the grid cell and the loop iterations around it; on every path an
``out`` tensor is stored once and an ``inout`` tensor is read before it is stored; ``in`` tensors are only read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from loomgen.errors import Span
from loomgen.ir.tile import (
    Access,
    Binary,
    BinaryOp,
    Call,
    Const,
    Contract,
    Coord,
    Expr,
    ForRange,
    ForWindow,
    Function,
    Given,
    GridRead,
    If,
    IndexRead,
    Inverse,
    Load,
    Map,
    Reduce,
    Scan,
    Select,
    Stmt,
    Store,
    Tensor,
    TensorRead,
    TileRead,
    Unary,
    UnaryOp,
    Window,
    WindowCoord,
    WindowField,
    WindowKind,
    WindowRead,
)
from loomgen.ir.types import Value
from loomgen.ir.walk import children, nodes
from loomgen.spec.codes import Code
from loomgen.spec.declarations import Declarations
from loomgen.spec.report import Collector


def check_ownership(body: tuple[Stmt, ...], declarations: Declarations, diagnostics: Collector) -> None:
    """Record in ``diagnostics`` every access that breaks the rules above."""
    _Checker(declarations, diagnostics).block(body, _Path(loops=(), given=frozenset()))


@dataclass(frozen=True, slots=True)
class _Path:
    """What holds where a statement stands: the loop variables around it and the tensors known to be given."""

    loops: tuple[str, ...]
    given: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Read:
    """``determined``: the grid coordinates and loops whose own elements alone are read."""

    tensor: str
    span: Span
    determined: frozenset[str]


@dataclass(slots=True)
class _Checker:
    declarations: Declarations
    diagnostics: Collector
    origins: dict[Value, frozenset[str]] = field(default_factory=dict)
    """Scalars read from distinct index tensors or made of coordinates, and the coordinates that each determines."""
    stored: dict[str, Span] = field(default_factory=dict)
    """Tensors stored so far on this path."""
    reads: list[_Read] = field(default_factory=list)
    """Reads of ``inout`` tensors so far."""
    windows: dict[str, Window] = field(default_factory=dict)
    """The windows of loops; the ordinal of a chunk counts the chunks of all sequences, so it tells its sequence."""
    counts: dict[str, Expr] = field(default_factory=dict)
    """The integer loops that start at 0, and where they end."""

    def block(self, body: Iterable[Stmt], path: _Path) -> None:
        for stmt in body:
            self._statement(stmt, path)

    def _statement(self, stmt: Stmt, path: _Path) -> None:
        match stmt:
            case Load():
                self._read(stmt.source, path)
                self._note_origin(stmt)
            case Map():
                self._expression(stmt.expr, path)
                self._note_number(stmt)
            case Reduce() | Scan():
                self._expression(stmt.expr, path)
            case Contract() | Inverse():
                return
            case Store():
                self._store(stmt, path)
            case ForWindow():
                self.windows[stmt.window.name] = stmt.window
                self._loop(stmt.window.name, stmt.body, path)
            case ForRange():
                if isinstance(stmt.begin, Const) and stmt.begin.value == 0:
                    self.counts[stmt.name] = stmt.end
                self._loop(stmt.name, stmt.body, path)
            case If():
                self._branch(stmt, path)

    # ----------------------------------------------------------------------- paths

    def _loop(self, name: str, body: tuple[Stmt, ...], path: _Path) -> None:
        n_reads = len(self.reads)
        self.block(body, _Path(loops=(*path.loops, name), given=path.given))
        for read in self.reads[n_reads:]:
            if read.tensor in self.stored and name not in read.determined:
                message = f"`{read.tensor}` may be read here after an earlier iteration of `{name}` stored it"
                self.diagnostics.add(Code.READ_AFTER_STORE, read.span, message)

    def _branch(self, stmt: If, path: _Path) -> None:
        self._expression(stmt.cond, path)
        before = dict(self.stored)
        self.block(stmt.then, _Path(loops=path.loops, given=path.given | _implied(stmt.cond, True)))
        after_then, self.stored = self.stored, before
        self.block(stmt.orelse, _Path(loops=path.loops, given=path.given | _implied(stmt.cond, False)))
        self.stored = {**after_then, **self.stored}

    # ----------------------------------------------------------------------- reads

    def _expression(self, expr: Coord, path: _Path) -> None:
        match expr:
            case TensorRead():
                self._read(expr, path)
            case Select():
                self._expression(expr.cond, path)
                self._expression(expr.then, _Path(loops=path.loops, given=path.given | _implied(expr.cond, True)))
                self._expression(expr.orelse, _Path(loops=path.loops, given=path.given | _implied(expr.cond, False)))
            case _:
                for part in children(expr):
                    self._expression(part, path)

    def _read(self, read: TensorRead, path: _Path) -> None:
        tensor = read.tensor
        for coord in read.coords:
            self._expression(coord, path)
        self._check_given(tensor, read.span, path)
        if tensor.access is Access.OUT:
            hint = "an `inout` tensor is read and stored"
            self.diagnostics.add(Code.WRONG_ACCESS, read.span, f"`{tensor.name}` is `out`: it cannot be read", hint)
        if tensor.access is not Access.INOUT:
            return
        if tensor.name in self.stored:
            message = f"`{tensor.name}` is read after it is stored"
            self.diagnostics.add(Code.READ_AFTER_STORE, read.span, message)
        determined = self._determined(read.coords)
        within = tuple(coord for coord in read.coords if _stays_inside(coord))
        self.reads.append(_Read(tensor.name, read.span, self._determined(within)))
        missing = [name for name in self.declarations.grid if name not in determined]
        if missing:
            message = f"another cell may store what is read here: `{tensor.name}` is not addressed by `{missing[0]}`"
            self.diagnostics.add(Code.NOT_OWNED, read.span, message)

    def _check_given(self, tensor: Tensor, span: Span, path: _Path) -> None:
        if tensor.optional and tensor.name not in path.given:
            hint = f"write `if given({tensor.name}):` around it"
            self.diagnostics.add(Code.UNGUARDED_OPTIONAL, span, f"`{tensor.name}` is optional and not tested", hint)

    def _note_origin(self, stmt: Load) -> None:
        if not stmt.value.indices and stmt.source.tensor.name in self.declarations.distinct:
            self.origins[stmt.value] = frozenset(self._determined(stmt.source.coords))

    def _note_number(self, stmt: Map) -> None:
        """A scalar that is computed from coordinates tells what its expression would."""
        if not stmt.value.indices and not isinstance(stmt.expr, WindowCoord):
            self.origins[stmt.value] = self._determined((stmt.expr,))

    # ----------------------------------------------------------------------- stores

    def _store(self, stmt: Store, path: _Path) -> None:
        tensor = stmt.tensor
        for coord in stmt.coords:
            self._expression(coord, path)
        self._check_given(tensor, stmt.span, path)
        if tensor.access is Access.IN:
            self.diagnostics.add(Code.WRONG_ACCESS, stmt.span, f"`{tensor.name}` is `in`: it cannot be stored")
            return
        if tensor.name in self.declarations.scatter:
            return
        if tensor.name in self.stored:
            message = f"`{tensor.name}` is stored a second time on this path"
            hint = f"the first time is at {self.stored[tensor.name]}"
            self.diagnostics.add(Code.WRITTEN_TWICE, stmt.span, message, hint)
        self.stored[tensor.name] = stmt.span
        if not self._check_coordinates(stmt):
            return
        known = self._determined(stmt.coords)
        for name in (*self.declarations.grid, *path.loops):
            if name not in known:
                self.diagnostics.add(Code.NOT_OWNED, stmt.span, _not_owned(stmt, name, name in path.loops))

    def _check_coordinates(self, stmt: Store) -> bool:
        seen: set[str] = set()
        for coord in stmt.coords:
            letters = [expr.index.name for expr in nodes(coord) if isinstance(expr, IndexRead)]
            repeated = seen & set(letters)
            if len(letters) > 1 or repeated or (letters and not _is_plain(coord)):
                message = "a coordinate of a store is one index letter, a window element of one, or a scalar"
                self.diagnostics.add(Code.STORE_COORDINATE, coord.span, message)
                return False
            seen |= set(letters)
        return True

    def _determined(self, coords: tuple[Coord, ...]) -> frozenset[str]:
        """The grid coordinates and loop variables that can be told from the coordinates of an element."""
        return frozenset(name for coord in coords for name in self._names_of(coord))

    def _names_of(self, coord: Coord) -> Iterator[str]:
        match coord:
            case WindowCoord(window=window) if window.kind is not WindowKind.BLOCK or _is_plain(coord):
                yield from _with_parent(window)
            case GridRead(name=name) if name in self.windows:
                yield from _with_parent(self.windows[name])
            case GridRead(name=name):
                yield name
            case Binary(op=BinaryOp.ADD, a=Binary(op=BinaryOp.MUL, a=group, b=size), b=GridRead(name=member)) if (
                self.counts.get(member) == size
            ):
                yield from self._names_of(group)
                yield member
            case TileRead(value=value):
                yield from self.origins.get(value, frozenset())
            case _:
                return


def _with_parent(window: Window) -> Iterator[str]:
    yield window.name
    if window.parent is not None:
        yield window.parent


def _is_plain(coord: Coord) -> bool:
    return isinstance(coord.offset if isinstance(coord, WindowCoord) else coord, IndexRead)


def _stays_inside(coord: Coord) -> bool:
    """A chunk is read at its own elements: ``c[i]`` and ``c[min(i,c.last)]``, not ``c[i-1]``."""
    if not isinstance(coord, WindowCoord) or coord.window.kind is not WindowKind.CHUNK or _is_plain(coord):
        return True
    match coord.offset:
        case Call(function=Function.MIN, args=(IndexRead(), WindowRead(window=window, field=WindowField.LAST))):
            return window == coord.window
        case _:
            return False


def _implied(cond: Expr, holds: bool) -> frozenset[str]:
    """The optional tensors that are given when ``cond`` is ``holds``."""
    match cond:
        case Given(tensor=tensor) if holds:
            return frozenset({tensor.name})
        case Unary(op=UnaryOp.NOT, x=x):
            return _implied(x, not holds)
        case Binary(op=BinaryOp.AND, a=a, b=b) if holds:
            return _implied(a, True) | _implied(b, True)
        case Binary(op=BinaryOp.OR, a=a, b=b) if not holds:
            return _implied(a, False) | _implied(b, False)
        case _:
            return frozenset()


def _not_owned(stmt: Store, name: str, is_loop: bool) -> str:
    which = "iterations of the loop over" if is_loop else "cells that differ in"
    return f"`{stmt.tensor.name}` is not addressed by `{name}`: {which} `{name}` would write the same elements"
