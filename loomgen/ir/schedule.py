"""A stage's schedule: how the statements of a program are carried out, never what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from loomgen.errors import Span


class Place(Enum):
    """Where a tile lives or a store passes through."""

    REGISTERS = "registers"
    SHARED = "shared"
    DIRECT = "direct"  # a store straight from registers to global memory, without staging


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An index cut into ``parts`` equal, contiguous parts.

    A contraction over it keeps one accumulator a part and adds them low to high: the order of the sum.
    ``across`` (a divisor of ``parts``) is over how many groups of warps the parts are spread: who adds.
    """

    index: str
    parts: int
    across: int


class ProductAtom(Enum):
    """Which instructions carry out products: a warp's, with operands in registers, or a warpgroup's, which reads both
    from shared memory."""

    MMA = "mma"
    WGMMA = "wgmma"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Warps that run some of the statements beside the other roles' warps. ``runs`` are the statements' left sides;
    the one role without runs what no other does. ``registers`` are what each of its threads holds."""

    name: str
    warps: int
    registers: int | None
    runs: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What the ``schedule`` section says; empty or None means: inferred.

    ``rows`` names the index letters whose 16-row slabs are dealt to the warps; ``rings`` the number of slots of a
    loop's tiles; ``place`` where a statement's value lives; ``min_blocks`` the launch bound; ``vector`` the
    neighbouring columns that a thread of a stage without products holds. ``roles`` share the statements out among
    groups of warps; the hardware copies what ``boxes`` names by boxes of a tensor. ``spans`` has the place in the spec
    of what is said: of a key's value (``warps``) and of an entry's name (``place.h``); ``formulas`` the text of numbers
    that are written with static names (``split.d.across``: KS), which a variant sets.
    """

    warps: int | None = None
    rows: tuple[str, ...] = ()
    splits: tuple[Split, ...] = ()
    rings: tuple[tuple[str, int], ...] = ()
    place: tuple[tuple[str, Place], ...] = ()
    min_blocks: int | None = None
    vector: int | None = None
    roles: tuple[Role, ...] = ()
    atom: ProductAtom = ProductAtom.MMA
    boxes: tuple[str, ...] = ()
    spans: tuple[tuple[str, Span], ...] = field(default=(), compare=False, repr=False)
    formulas: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    def span(self, *keys: str) -> Span | None:
        """The place of the first of the keys that the section has."""
        known = dict(self.spans)
        return next((known[key] for key in keys if key in known), None)

    def formula(self, key: str) -> str | None:
        return dict(self.formulas).get(key)

    def split(self, index: str) -> Split | None:
        return next((s for s in self.splits if s.index == index), None)

    def ring(self, name: str) -> int | None:
        return dict(self.rings).get(name)

    def placed(self, name: str) -> Place | None:
        return dict(self.place).get(name)
