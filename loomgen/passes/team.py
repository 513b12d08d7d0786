"""How the threads divide the work: slabs of rows and parts of a split index for MMAs, strips of rows without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from loomgen.errors import Diagnostic, Span, SpecError
from loomgen.ir import walk
from loomgen.ir.kernel import KernelSpec
from loomgen.ir.plan import Fragment, RegisterTile, Strip, StripTile, Team
from loomgen.ir.schedule import Split
from loomgen.ir.tile import Contract, Program, Reduce, Stmt
from loomgen.ir.types import DType, Index
from loomgen.spec.codes import Code

SLAB_ROWS = 16
PAIR = 2
_DEFAULT_VECTOR_WARPS = 4
_MAX_ACROSS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The team and what decides a tile's register layout.

    A stage with products: the row letters, and the split index's symbol, if any. A stage without (``vector`` set): the
    neighbouring columns of a thread.
    """

    team: Team
    rows: frozenset[str]
    split: Split | None
    split_symbol: str | None
    vector: int | None

    def register_tile(self, name: str, dtype: DType, rows: Index, cols: Index) -> RegisterTile | StripTile:
        """A tile's home in registers."""
        if self.vector is not None:
            return StripTile(name=name, dtype=dtype, layout=self.strip_of(rows, cols))
        return RegisterTile(name=name, dtype=dtype, fragment=self.fragment_of(rows, cols))

    def fragment_of(self, rows: Index, cols: Index) -> Fragment:
        parts = self.team.parts if cols.symbol == self.split_symbol else 1
        return Fragment(rows=rows, cols=cols, col_parts=parts)

    def strip_of(self, rows: Index, cols: Index) -> Strip:
        vector = max(self.vector or PAIR, cols.extent // 32)
        return Strip(rows=rows, cols=cols, vector=vector, groups=self.team.threads // (cols.extent // vector))

    def owns(self, index: Index) -> bool:
        """The index can run along the rows of a register layout."""
        return self.vector is not None or index.name in self.rows

    def split_of(self, over: Index) -> Split | None:
        """The split of a contracted index."""
        return self.split if over.symbol == self.split_symbol else None


def divide(kernel: KernelSpec, program: Program) -> Division:
    """The division that the schedule asks for; what it leaves out is inferred from the statements."""
    products = [stmt for stmt in walk.statements(program.body) if isinstance(stmt, Contract)]
    return _divide_slabs(kernel, program, products) if products else _divide_strips(kernel, program)


def _divide_strips(kernel: KernelSpec, program: Program) -> Division:
    team = Team(slabs=kernel.schedule.warps or _DEFAULT_VECTOR_WARPS, parts=1)
    vector = kernel.schedule.vector or PAIR
    held = ((cols, stmt.span) for stmt in walk.statements(program.body) for cols in _columns(stmt))
    for cols, span in held:
        if not (_is_power_of_two(cols.extent) and _is_power_of_two(vector) and PAIR <= vector <= cols.extent):
            message = f"columns {cols.name}: {cols.extent} do not cut into strips of {vector}"
            _reject(kernel, Code.STRIP_COLUMNS, message, "both are powers of two", "vector", fallback=span)
    return Division(team=team, rows=frozenset(), split=None, split_symbol=None, vector=vector)


def _columns(stmt: Stmt) -> tuple[Index, ...]:
    """The letters along the columns of what the statement holds in strips."""
    if isinstance(stmt, Reduce):
        return stmt.over if stmt.value.indices else ()
    return tuple(value.indices[1] for value in walk.defined(stmt) if len(value.indices) == 2)


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _divide_slabs(kernel: KernelSpec, program: Program, products: list[Contract]) -> Division:
    schedule = kernel.schedule
    letters = {index.name: index for index in program.indices}
    firsts = {stmt.value.indices[0].name: stmt.value.indices[0] for stmt in products}
    rows = [letters[name] for name in schedule.rows] or list(firsts.values())
    slabs = {index.extent // SLAB_ROWS for index in rows}
    if len(slabs) != 1 or any(index.extent % SLAB_ROWS for index in rows):
        names = ", ".join(f"{index.name}: {index.extent}" for index in rows)
        message = f"rows {names} do not cut into equally many slabs of {SLAB_ROWS}"
        _reject(kernel, Code.UNEVEN_SLABS, message, None, "rows", fallback=products[0].span)
    split = schedule.splits[0] if schedule.splits else None
    if len(schedule.splits) > 1 or (split is not None and split.across > _MAX_ACROSS):
        message = f"one index is split, across at most {_MAX_ACROSS} groups of warps"
        _reject(kernel, Code.SPLIT_COUNT, message, None, *(f"split.{each.index}" for each in schedule.splits[-1:]))
    if split is not None and split.across not in (1, split.parts):
        message = "each group of warps has one part, or one group has them all"
        _reject(kernel, Code.SPLIT_COUNT, message, None, f"split.{split.index}")
    team = Team(slabs=slabs.pop(), parts=split.across if split else 1)
    if schedule.warps not in (None, team.warps):
        hint = f"{team.slabs} slabs x {team.parts} parts make {team.warps} warps"
        _reject(kernel, Code.WARP_COUNT, f"warps: {schedule.warps} does not fit rows and split", hint, "warps")
    return Division(
        team=team,
        rows=frozenset(index.name for index in rows),
        split=split,
        split_symbol=letters[split.index].symbol if split else None,
        vector=None,
    )


def _reject(
    kernel: KernelSpec, code: Code, message: str, hint: str | None, *keys: str, fallback: Span | None = None
) -> NoReturn:
    """At the first of the schedule's keys that the spec has, else at ``fallback`` or the stage."""
    span = kernel.schedule.span(*keys) or fallback or kernel.program.span
    chain = (f"in {kernel.name}",)
    raise SpecError([Diagnostic(code=code.value, message=message, span=span, hint=hint, chain=chain)])
