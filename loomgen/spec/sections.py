"""The sections of a spec file, for one expansion: static names, tensors, index letters, grid and ``where``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from loomgen.errors import Span
from loomgen.ir.tile import Access, Expr, GridAxis, ScalarArg, Tensor, Window, WindowKind
from loomgen.ir.types import DType, Index
from loomgen.spec.check_types import is_integer
from loomgen.spec.codes import Code
from loomgen.spec.declarations import CHUNK_DIM, DTYPES, RUNTIME_DIMS, Declarations
from loomgen.spec.model import Number, SpecModel
from loomgen.spec.parse_expr import lower_expr
from loomgen.spec.report import Collector, Reject, Skip, did_you_mean
from loomgen.spec.scope import Context, NameSupply, Origin, Scope
from loomgen.spec.source import Document, Loc, Text
from loomgen.spec.statics import RUNTIME_DIM, Statics, fold, origin, static_number
from loomgen.spec.syntax import parse_expression

T = TypeVar("T")

SEQUENCES_DIM = "N"
CHUNKS_DIM = "NC"


@dataclass(frozen=True, slots=True)
class SectionReader:
    """Reads the sections of one file under one expansion's static names, recording mistakes as it goes."""

    document: Document
    model: SpecModel
    statics: Statics
    diagnostics: Collector

    def declarations(self) -> Declarations:
        """Everything that the sections declare. Raises :class:`Skip` when a section is wrong (and recorded)."""
        before = len(self.diagnostics.found)
        symbols: dict[str, tuple[int | str, ...]] = {}
        tensors = self._each(self.model.tensors, lambda name: self._tensor(name, symbols))
        scalars = {name: self._scalar(name, dtype) for name, dtype in self.model.scalars.items()}
        indices = self._each(self.model.index, self._index)
        blocked: dict[str, str] = {}
        grid = self._each(self.model.grid, lambda name: self._axis(name, blocked))
        if len(self.diagnostics.found) > before:
            raise Skip
        declared = Declarations(
            statics=self.statics,
            tensors=tensors,
            symbols=symbols,
            distinct=frozenset(name for name, tensor in self.model.tensors.items() if tensor.distinct),
            scatter=frozenset(name for name, tensor in self.model.tensors.items() if tensor.scatter),
            scalars=scalars,
            indices=indices,
            grid=grid,
            blocked=blocked,
            runtime_dims=frozenset((*RUNTIME_DIMS, *_runtime_dims(tensors, grid))),
            where={},
        )
        return self._with_where(declared)

    def _each(self, section: Mapping[str, object], read: Callable[[str], T]) -> dict[str, T]:
        result: dict[str, T] = {}
        for name in section:
            with self.diagnostics.collecting():
                result[name] = read(name)
        return result

    def number(self, value: Number, loc: Loc) -> int:
        """A number of the file, at least 1. Raises :class:`Reject`."""
        span = self.document.value_span(loc)
        number = value if isinstance(value, int) else static_number(self.document.texts[loc], self.statics)
        if number < 1:
            shown = value if isinstance(value, str) else _shown(loc)
            raise Reject(Code.BAD_EXTENT, span, f"{shown} is {number}: want at least 1")
        return number

    # ----------------------------------------------------------------------- tensors and scalars

    def _tensor(self, name: str, symbols: dict[str, tuple[int | str, ...]]) -> Tensor:
        model, loc = self.model.tensors[name], ("tensors", name)
        shape = tuple(self._dimension(size, (*loc, "shape", axis)) for axis, size in enumerate(model.shape))
        symbols[name] = tuple(size.replace(" ", "") if isinstance(size, str) else size for size in model.shape)
        return Tensor(
            name=name,
            dtype=self._dtype(model.dtype, (*loc, "dtype")),
            shape=shape,
            access=Access(model.access),
            strides=model.strides,
            optional=model.optional,
            span=self.document.key_span(loc),
            symbols=symbols[name],
            about=model.about,
        )

    def _dimension(self, size: Number, loc: Loc) -> int | str:
        is_runtime = isinstance(size, str) and RUNTIME_DIM.fullmatch(size) and size not in self.statics.numbers
        return str(size) if is_runtime else self.number(size, loc)

    def _dtype(self, name: str, loc: Loc) -> DType:
        if name in self.statics.dtypes:
            return self.statics.dtypes[name]
        if name in DTYPES:
            return DTYPES[name]
        hint = did_you_mean(name, (*DTYPES, *self.statics.dtypes))
        raise Reject(Code.UNKNOWN_DTYPE, self.document.value_span(loc), f"unknown dtype `{name}`", hint)

    def _scalar(self, name: str, dtype: str) -> ScalarArg:
        return ScalarArg(name=name, dtype=DTYPES[dtype], span=self.document.key_span(("scalars", name)))

    # ----------------------------------------------------------------------- indices and grid

    def _index(self, name: str) -> Index:
        extent = self.model.index[name]
        return Index(name=name, symbol=str(extent).replace(" ", ""), extent=self.number(extent, ("index", name)))

    def _axis(self, name: str, blocked: dict[str, str]) -> GridAxis:
        value, loc = self.model.grid[name], ("grid", name)
        span = self.document.key_span(loc)
        match value:
            case "sequences":
                return _window_axis(name, (SEQUENCES_DIM, ""), WindowKind.SEQUENCE, (0, ""), span)
            case "chunks":
                extent = (self._chunk_extent(loc), CHUNK_DIM)
                return _window_axis(name, (CHUNKS_DIM, ""), WindowKind.CHUNK, extent, span)
            case "segments":
                message = "segments are not part of this version of the language"
                raise Reject(Code.SEGMENTS, self.document.value_span(loc), message)
            case str() if "(" in value:
                return self._blocks_axis(name, loc, blocked)
            case _:
                count = self._count(value, loc)
                return GridAxis(name=name, count=count, window=None, span=span, symbol=str(value).replace(" ", ""))

    def _count(self, value: Number, loc: Loc) -> int | str:
        if isinstance(value, str) and not value[:1].isupper() and value not in self.statics.numbers:
            message = f"`{value}` is not a grid axis"
            hint = did_you_mean(value, ("sequences", "chunks", *self.statics.numbers)) or "or write `blocks(V, VB)`"
            raise Reject(Code.BAD_AXIS, self.document.value_span(loc), message, hint)
        return self._dimension(value, loc)

    def _chunk_extent(self, loc: Loc) -> int:
        extent = self.statics.numbers.get(CHUNK_DIM)
        if extent is None:
            message = f"chunks have {CHUNK_DIM} tokens: `dims` must give {CHUNK_DIM}"
            raise Reject(Code.UNKNOWN_STATIC, self.document.value_span(loc), message)
        return extent

    def _blocks_axis(self, name: str, loc: Loc, blocked: dict[str, str]) -> GridAxis:
        text = self.document.texts[loc]
        match parse_expression(text):
            case ast.Call(func=ast.Name(id="blocks"), args=[ast.Name() as whole, block]):
                size, extent = self._static(whole, text), self._static(block, text)
            case node:
                raise Reject(Code.BAD_AXIS, text.span(node), f"`{text.value}` is not a grid axis", "`blocks(V, VB)`")
        place = origin(block, self.statics, text.span(block))
        shown = ast.unparse(block)
        if extent < 1:
            raise Reject(Code.BAD_EXTENT, place, f"{shown}={extent}: want at least 1")
        if size % extent:
            message = f"{_equation(shown, extent)} does not divide {_equation(whole.id, size)}"
            raise Reject(Code.NOT_DIVISIBLE, place, message)
        blocked[name] = whole.id
        count = (size // extent, f"{whole.id}//({shown})")
        return _window_axis(name, count, WindowKind.BLOCK, (extent, shown), self.document.key_span(loc))

    def _static(self, node: ast.expr, text: Text) -> int:
        value = fold(node, self.statics)
        if isinstance(value, int):
            return value
        shown = ast.unparse(node)
        hint = did_you_mean(shown, self.statics.numbers)
        raise Reject(Code.UNKNOWN_STATIC, text.span(node), f"`{shown}` is not a static number", hint)

    # ----------------------------------------------------------------------- where

    def _with_where(self, declared: Declarations) -> Declarations:
        before = len(self.diagnostics.found)
        for name in self.model.where:
            with self.diagnostics.collecting():
                declared = replace(declared, where={**declared.where, name: self._where(name, declared)})
        if len(self.diagnostics.found) > before:
            raise Skip
        return declared

    def _where(self, name: str, declared: Declarations) -> Expr:
        text = self.document.texts[("where", name)]
        node = parse_expression(text)
        windows = {key: axis.window for key, axis in declared.grid.items() if axis.window is not None}
        ctx = Context(
            declarations=declared,
            scope=Scope(windows=windows, counters=set(declared.grid) - set(windows)),
            supply=NameSupply((), ()),
            text=text,
            origin=Origin(name=name, text=text.value, span=text.span(node)),
            bound=(),
            hoisted={},
        )
        expr = lower_expr(ctx, node)
        if not is_integer(expr.dtype):
            raise Reject(Code.BAD_OPERAND, expr.span, f"a `where` name is an integer, this is {expr.dtype.value}")
        return expr


def _window_axis(
    name: str, count: tuple[int | str, str], kind: WindowKind, extent: tuple[int, str], span: Span
) -> GridAxis:
    """``count`` and ``extent`` are numbers and how the spec writes them."""
    window = Window(name=name, kind=kind, extent=extent[0], parent=None, span=span, symbol=extent[1])
    return GridAxis(name=name, count=count[0], window=window, span=span, symbol=count[1])


def _shown(loc: Loc) -> str:
    """What a number of the file is the value of."""
    return f"`{loc[-1]}`" if isinstance(loc[-1], str) else f"dimension {loc[-1]} of `{loc[-3]}`"


def _equation(shown: str, value: int) -> str:
    return shown if shown == str(value) else f"{shown}={value}"


def _runtime_dims(tensors: Mapping[str, Tensor], grid: Mapping[str, GridAxis]) -> Iterator[str]:
    sizes: list[int | str] = [size for tensor in tensors.values() for size in tensor.shape]
    sizes += [axis.count for axis in grid.values()]
    yield from (size for size in sizes if isinstance(size, str))
