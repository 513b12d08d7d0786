"""Element-wise statements over a register layout, over its rows, and those without indices; reductions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from loomgen.ir import plan
from loomgen.ir.device import (
    Assign,
    Braces,
    CExpr,
    CStmt,
    Declare,
    DeclareArray,
    Element,
    For,
    Infix,
    Invoke,
    Literal,
    add,
    call,
    name,
    num,
)
from loomgen.ir.plan import RegisterLayout, Ring, ScalarUse, SharedBuffer, SharedRef, Team
from loomgen.ir.tile import Expr, ReduceOp, TileRead
from loomgen.ir.types import DType
from loomgen.passes.lower.elements import ElementNames, Position
from loomgen.passes.lower.expressions import ExprLowering
from loomgen.passes.lower.hoist import Hoisted, hoist
from loomgen.passes.lower.layouts import Walk, row_loop, store_pair, walk_of
from loomgen.passes.lower.names import Naming, c_type
from loomgen.passes.lower.statics import extent
from loomgen.passes.lower.windows import WindowScope

_IDENTITY = {ReduceOp.SUM: Literal(text="-0.0f"), ReduceOp.MAX: Literal(text="-__builtin_huge_valf()")}


@dataclass(frozen=True, slots=True, kw_only=True)
class MapContext:
    """What the element-wise statements of one block have in common. ``block_barrier`` is where the whole team meets."""

    team: Team
    windows: WindowScope
    naming: Naming
    block_barrier: Invoke
    rings: tuple[Ring, ...] = ()

    def ring_of(self, buffer: SharedBuffer) -> Ring:
        """The ring that hands the buffer over."""
        return next(ring for ring in self.rings if buffer in ring.buffers)

    where: tuple[tuple[Expr, CExpr], ...] = ()  # what the spec has a name for

    def at(self, homes: plan.Homes, position: Position) -> ExprLowering:
        """Lowers expressions at one element."""
        elements = ElementNames(homes=dict(homes), position=position, naming=self.naming)
        return ExprLowering(elements=elements, windows=self.windows, named=dict(self.where))

    def uniform(self, expr: Expr, homes: plan.Homes) -> CExpr:
        """An expression without index letters."""
        return self.at(homes, Position(letters={})).lower(expr)


def lower_scalar(op: plan.MapScalar, context: MapContext) -> list[CStmt]:
    value = context.uniform(op.expr, op.homes)
    variable = context.naming.local(op.dst.name)
    match op.use:
        case ScalarUse.CONSTANT:
            return [Declare(type=f"const {c_type(op.dst.dtype)}", name=variable, init=value)]
        case ScalarUse.VARIABLE:
            return [Declare(type=c_type(op.dst.dtype), name=variable, init=value)]
        case ScalarUse.ASSIGNMENT:
            return [Assign(target=name(variable), value=value)]


def lower_fragment(op: plan.MapFragment, context: MapContext) -> list[CStmt]:
    """A value for every element that the thread holds."""
    elements = _Elements(context=context, layout=op.dst.layout, homes=op.homes, prefix=op.value.name, expr=op.expr)
    return elements.loops(
        lambda values: store_pair(elements.walk, context.naming.local(op.dst.name), op.dst.dtype, values)
    )


def lower_rows(op: plan.MapRows, context: MapContext) -> list[CStmt]:
    """One number for each row that the thread holds."""
    walk = walk_of(op.dst.layout, context.team)
    letter, slot = op.value.indices[0], name(walk.row_var)
    at = context.at(op.homes, Position(letters={letter: name(letter.name)}, row_slot=slot))
    array = context.naming.local(op.dst.name)
    assign = Assign(target=Element(array=array, subscripts=(slot,)), value=at.lower(op.expr))
    loop = row_loop(walk, letter, (assign,))
    return [DeclareArray(type=c_type(op.dst.dtype), name=array, extents=(walk.n_rows,)), loop]


def lower_reduce_columns(op: plan.ReduceColumns, context: MapContext) -> list[CStmt]:
    """The thread's own elements in ascending order, then the threads of its row in pairs, nearest first."""
    if op.parts > 1:
        return _reduce_parts(op, context)
    elements, total = _reduced(op, context), context.naming.local(op.dst.name)
    walk = elements.walk
    number = Element(array=total, subscripts=(name(walk.row_var),))
    across = tuple(_across_lanes(op.op, number, walk))
    return [
        DeclareArray(type="float", name=total, extents=(walk.n_rows,), init=_identities(op.op, walk)),
        *elements.loops(lambda values: _accumulate(op.op, number, values)),
        For(var=walk.row_var, begin=num(0), end=num(walk.n_rows), unroll=True, body=across),
    ]


def _reduce_parts(op: plan.ReduceColumns, context: MapContext) -> list[CStmt]:
    """The same for each part of the columns by itself; the parts' numbers are then combined low to high."""
    elements, total = _reduced(op, context), context.naming.local(op.dst.name)
    walk, parts = elements.walk, f"{total}$parts"
    row = name(walk.row_var)
    part_of_column = Infix(op="/", a=name(walk.col_var), b=num(walk.n_cols // op.parts))
    own = Element(array=parts, subscripts=(part_of_column, row))
    numbers = [Element(array=parts, subscripts=(num(part), row)) for part in range(op.parts)]
    across = [stmt for number in numbers for stmt in _across_lanes(op.op, number, walk)]
    whole: CExpr = numbers[0]
    for higher in numbers[1:]:
        whole = combine(op.op, whole, higher)
    combined = Assign(target=Element(array=total, subscripts=(row,)), value=whole)
    identities = Braces(items=(_identities(op.op, walk),) * op.parts)
    return [
        DeclareArray(type="float", name=total, extents=(walk.n_rows,)),
        DeclareArray(type="float", name=parts, extents=(op.parts, walk.n_rows), init=identities),
        *elements.loops(lambda values: _accumulate(op.op, own, values)),
        For(var=walk.row_var, begin=num(0), end=num(walk.n_rows), unroll=True, body=(*across, combined)),
    ]


def _reduced(op: plan.ReduceColumns, context: MapContext) -> _Elements:
    return _Elements(context=context, layout=op.layout, homes=op.homes, prefix=op.dst.name, expr=op.expr)


def _identities(op: ReduceOp, walk: Walk) -> Braces:
    """Of each row that the thread holds."""
    return Braces(items=(_IDENTITY[op],) * walk.n_rows)


def _accumulate(op: ReduceOp, total: Element, values: list[CExpr]) -> list[CStmt]:
    return [Assign(target=total, value=combine(op, total, value)) for value in values]


def _across_lanes(op: ReduceOp, total: Element, walk: Walk) -> Iterator[CStmt]:
    for mask in walk.lane_masks():
        yield Assign(target=total, value=combine(op, total, call("shuffle_xor", total, num(mask))))


def lower_reduce_vector(op: plan.ReduceVector, context: MapContext) -> list[CStmt]:
    """Every thread adds all elements in ascending order."""
    variable = context.naming.local(op.dst.name)
    at = context.at(op.homes, Position(letters={op.over: name(op.over.name)}))
    update = Assign(target=name(variable), value=combine(op.op, name(variable), at.lower(op.expr)))
    loop = For(var=op.over.name, begin=num(0), end=extent(op.over), unroll=False, body=(update,))
    return [Declare(type="float", name=variable, init=_IDENTITY[op.op]), loop]


def combine(op: ReduceOp, a: CExpr, b: CExpr) -> CExpr:
    """Two partial results of a reduction."""
    return Infix(op="+", a=a, b=b) if op is ReduceOp.SUM else call("max_f32", a, b)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Elements:
    """An expression at every element of a layout: two nested loops over column pairs and rows, what does not depend
    on both computed outside."""

    context: MapContext
    layout: RegisterLayout
    homes: plan.Homes
    prefix: str
    expr: Expr

    @property
    def walk(self) -> Walk:
        return walk_of(self.layout, self.context.team)

    def loops(self, use: Callable[[list[CExpr]], list[CStmt]]) -> list[CStmt]:
        """``use`` turns the two values of a pair into statements."""
        walk, rows, cols = self.walk, self.layout.rows, self.layout.cols
        found = hoist(
            self.expr,
            self.context.naming.local(self.prefix),
            rows,
            cols,
            self._is_in_registers,
            has_all_rows=walk.row_guard() is None,
        )
        once, known = self._once(found)
        by_column, columns = self._by_column(found, known)
        values = [self._element({**known, **columns[second]}, second) for second in (0, 1)]
        inner = row_loop(walk, rows, tuple(use(values)))
        col = Declare(type="const int", name=cols.name, init=walk.col())
        body = (col, *by_column, inner)
        return [*once, For(var=walk.col_var, begin=num(0), end=num(walk.n_cols), unroll=True, body=body)]

    def _is_in_registers(self, read: TileRead) -> bool:
        return not isinstance(dict(self.homes)[read.value.name], SharedRef)

    def _once(self, found: Hoisted) -> tuple[list[CStmt], dict[Expr, CExpr]]:
        """Variables outside both loops, and what an element then finds in them."""
        out: list[CStmt] = []
        uniform: dict[Expr, CExpr] = {}
        lowering = self.context.at(self.homes, Position(letters={}))
        for text, expr in found.uniform:
            value = replace(lowering, hoisted=dict(uniform)).as_float(expr)
            out.append(Declare(type="const float", name=text, init=value))
            uniform[expr] = name(text)
        named: dict[Expr, str] = {}
        for text, expr in found.by_row:
            values = tuple(self._at_row(expr, slot, uniform, named) for slot in range(self.walk.n_rows))
            out.append(DeclareArray(type="const float", name=text, extents=(len(values),), init=Braces(items=values)))
            named[expr] = text
        slot = name(self.walk.row_var)
        by_row: dict[Expr, CExpr] = {expr: Element(array=text, subscripts=(slot,)) for expr, text in named.items()}
        return out, {**uniform, **by_row}

    def _at_row(self, expr: Expr, slot: int, uniform: dict[Expr, CExpr], named: dict[Expr, str]) -> CExpr:
        position = Position(letters={self.layout.rows: self.walk.row(num(slot))}, row_slot=num(slot))
        known: dict[Expr, CExpr] = {key: Element(array=text, subscripts=(num(slot),)) for key, text in named.items()}
        return replace(self.context.at(self.homes, position), hoisted={**uniform, **known}).as_float(expr)

    def _by_column(self, found: Hoisted, known: dict[Expr, CExpr]) -> tuple[list[CStmt], list[dict[Expr, CExpr]]]:
        """Variables of a column pair, and for each of the two columns what an element then finds in them."""
        cols = self.layout.cols
        out: list[CStmt] = []
        columns: list[dict[Expr, CExpr]] = [{}, {}]
        for text, expr in found.by_col:
            lowerings = [
                replace(
                    self.context.at(self.homes, Position(letters={cols: add(name(cols.name), num(second))})),
                    hoisted={**known, **columns[second]},
                )
                for second in (0, 1)
            ]
            if self._loads_as_pair(expr):
                load = lowerings[0].as_float(expr)
                assert isinstance(load, Invoke)
                out.append(Declare(type="const f32x2", name=text, init=replace(load, function="ld_shared<f32x2>")))
                fields: list[CExpr] = [name(f"{text}.{field}") for field in "xy"]
            else:
                values = tuple(lowering.as_float(expr) for lowering in lowerings)
                out.append(DeclareArray(type="const float", name=text, extents=(2,), init=Braces(items=values)))
                fields = [Element(array=text, subscripts=(num(second),)) for second in (0, 1)]
            for second in (0, 1):
                columns[second][expr] = fields[second]
        return out, columns

    def _loads_as_pair(self, expr: Expr) -> bool:
        """An element of an f32 vector at an even column: it and its neighbour are 8 aligned bytes."""
        if not isinstance(expr, TileRead) or len(expr.subs) != 1:
            return False
        home = dict(self.homes)[expr.value.name]
        return isinstance(home, SharedRef) and home.buffer.dtype is DType.F32 and expr.subs[0].offset % 2 == 0

    def _element(self, known: dict[Expr, CExpr], second: int) -> CExpr:
        rows, cols = self.layout.rows, self.layout.cols
        letters = {rows: name(rows.name), cols: add(name(cols.name), num(second))}
        position = Position(letters=letters, row_slot=name(self.walk.row_var), walk=self.walk, second=second)
        lowering = replace(self.context.at(self.homes, position), hoisted=known)
        return lowering.unrounded(self.expr) if self.expr.dtype.is_half else lowering.lower(self.expr)
