"""What a statement sees while the program is lowered: values by name, windows, and where new statements go."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from loomgen.errors import Span
from loomgen.ir.tile import Stmt, TileRead, Window
from loomgen.ir.types import Value
from loomgen.spec.declarations import Declarations
from loomgen.spec.source import Text


class NameSupply:
    """Unique value names: the spec's name first, then ``_2``, ``_3`` ...; never a name the spec uses otherwise."""

    def __init__(self, assigned: Iterable[str], declared: Iterable[str]) -> None:
        self._assigned = frozenset(assigned)
        self._taken = set(declared)

    def fresh(self, base: str) -> str:
        """The next version of a name that the program assigns."""
        return self._claim(base, own=base)

    def helper(self, base: str) -> str:
        """A name for what the front end introduces, such as ``x_mm``."""
        return self._claim(base, own=None)

    def _claim(self, base: str, own: str | None) -> str:
        name, count = base, 1
        while name in self._taken or (name in self._assigned and name != own):
            count += 1
            name = f"{base}_{count}" if own is not None else f"{base}{count}"
        self._taken.add(name)
        return name


@dataclass(slots=True, kw_only=True)
class Scope:
    """The state of one block. ``assigned``: names that this block itself has assigned; ``lost``: names that no
    longer have a value, and why; ``poisoned``: names whose assignment was wrong and is already reported."""

    values: dict[str, Value] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    counters: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    poisoned: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    out: list[Stmt] = field(default_factory=list)

    def child(self) -> Scope:
        """The scope of a block inside this one, with statements of its own."""
        return Scope(
            values=dict(self.values),
            windows=dict(self.windows),
            counters=set(self.counters),
            lost=dict(self.lost),
            poisoned=set(self.poisoned),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The spec statement that Tile IR statements come from; ``name`` is its left side's."""

    name: str
    text: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where an expression stands. ``bound`` are the index letters that have a meaning there, the left side's first;
    ``hoisted`` are the operators already lowered to statements, each with the element that takes its place."""

    declarations: Declarations
    scope: Scope
    supply: NameSupply
    text: Text
    origin: Origin
    bound: tuple[str, ...]
    hoisted: dict[ast.expr, TileRead]
    in_subscript: bool = False
