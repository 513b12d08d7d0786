"""What an element-wise loop need not compute again for each element: what depends on its row, its column or neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from loomgen.ir import tile, walk
from loomgen.ir.tile import Expr, TileRead
from loomgen.ir.types import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class Hoisted:
    """Sub-expressions to compute outside: ``uniform`` once, ``by_row`` once a row, ``by_col`` once a column; with
    names.
    """

    uniform: tuple[tuple[str, Expr], ...]
    by_row: tuple[tuple[str, Expr], ...]
    by_col: tuple[tuple[str, Expr], ...]


@dataclass(slots=True)
class _Collector:
    prefix: str
    rows: Index
    cols: Index
    is_cheap: Callable[[TileRead], bool]
    has_all_rows: bool
    found: dict[str, dict[Expr, str]] = field(default_factory=lambda: {"uniform": {}, "row": {}, "col": {}})
    names: set[str] = field(default_factory=set)

    def visit(self, expr: Expr, in_arm: bool = False, inside: bool = False) -> None:
        """``in_arm``: inside an arm of a select, where a tensor may only be read if the arm is taken; ``inside`` an
        expression by column that is hoisted as a whole.
        """
        kind = self._kind(expr)
        is_hoisted = kind is not None and expr.dtype.is_float and self._costs(expr, kind, in_arm)
        is_hoisted = is_hoisted and (not inside or kind != "col" or isinstance(expr, TileRead))
        for child in walk.children(expr):
            if not isinstance(child, tile.WindowCoord) and (not is_hoisted or self._stands_alone(child, kind)):
                is_inside = inside or (is_hoisted and kind == "col")
                self.visit(child, in_arm or isinstance(expr, tile.Select), is_inside)
        if kind is not None and is_hoisted and expr not in self.found[kind]:
            self.found[kind][expr] = self._name(expr, kind)

    def _stands_alone(self, expr: Expr, kind: str | None) -> bool:
        """Inside a hoisted expression: what depends on less, and elements of vectors by column, which load in pairs."""
        return self._kind(expr) != kind or kind == "col"

    def _kind(self, expr: Expr) -> str | None:
        letters = walk.free_indices(expr)
        if not letters:
            return "uniform"
        if letters == {self.rows}:
            return "row" if self.has_all_rows else None
        return "col" if letters == {self.cols} else None

    def _costs(self, expr: Expr, kind: str, in_arm: bool) -> bool:
        """It reads memory or computes. Tensors are read ahead only where every element needs them."""
        nodes = list(walk.nodes(expr))
        if any(isinstance(node, tile.TensorRead) for node in nodes) and (in_arm or kind != "uniform"):
            return False
        return any(
            isinstance(node, tile.Call | tile.Binary | tile.TensorRead)
            or (isinstance(node, TileRead) and not self.is_cheap(node))
            for node in nodes
        )

    def _name(self, expr: Expr, kind: str) -> str:
        letter = {"uniform": "all", "row": self.rows.name, "col": self.cols.name}[kind]
        name = _described(expr) or f"{self.prefix}${letter}"
        unique, count = name, 2
        while unique in self.names:
            unique, count = f"{name}${count}", count + 1
        self.names.add(unique)
        return unique


def _described(expr: Expr) -> str | None:
    """``g_i`` for an element of a vector, ``exp2_g_last`` for a function of one."""
    match expr:
        case TileRead(subs=(sub,)):
            last = expr.value.indices[0].extent - 1
            place = sub.index.name if sub.index is not None else "last" if sub.offset == last else str(sub.offset)
            return f"{expr.value.name}${place}{sub.offset if sub.index is not None and sub.offset else ''}"
        case tile.Call(args=(TileRead() as read,)):
            inner = _described(read)
            return None if inner is None else f"{expr.function.value}${inner}"
        case _:
            return None


def hoist(
    expr: Expr,
    prefix: str,
    rows: Index,
    cols: Index,
    is_cheap: Callable[[TileRead], bool],
    *,
    has_all_rows: bool = True,
) -> Hoisted:
    """The largest float sub-expressions of one kind each; ``is_cheap`` tells tiles that already lie in registers. Where
    some threads lack rows, nothing is computed for a row outside the loop that tests for it.
    """
    collector = _Collector(prefix=prefix, rows=rows, cols=cols, is_cheap=is_cheap, has_all_rows=has_all_rows)
    collector.visit(expr)
    pick = {kind: tuple((name, expr) for expr, name in found.items()) for kind, found in collector.found.items()}
    return Hoisted(uniform=pick["uniform"], by_row=pick["row"], by_col=pick["col"])
