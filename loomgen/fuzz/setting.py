"""What a generated stage is about: its dims, index letters, grid and heads, before any statement is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loomgen.fuzz.choices import Choices

Grid = Literal["chunks", "sequences", "cells"]
Heads = Literal["none", "plain", "grouped"]

_GRIDS: tuple[Grid, ...] = ("chunks", "sequences", "cells")
_HEADS: tuple[Heads, ...] = ("none", "plain", "grouped")
EXTENTS = (16, 32, 64)
_MAX_BLOCKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """An index letter; a block's letter runs over one block of the dim that its tensors have."""

    name: str
    symbol: str
    extent: int
    is_block: bool = False

    @property
    def dim(self) -> str:
        """The dim of the tensors that the letter addresses."""
        return "V" if self.is_block else self.symbol

    @property
    def coordinate(self) -> str:
        return f"vb[{self.name}]" if self.is_block else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """``rows``: the letters whose 16-row slabs the warps own; none in a stage without products."""

    grid: Grid
    heads: Heads
    dims: tuple[tuple[str, int], ...]
    letters: tuple[Letter, ...]
    rows: tuple[Letter, ...]

    @property
    def has_products(self) -> bool:
        return bool(self.rows)

    @property
    def block(self) -> Letter | None:
        return next((letter for letter in self.letters if letter.is_block), None)

    def grid_text(self) -> str:
        cells = {"chunks": "c: chunks", "sequences": "n: sequences", "cells": "n: N"}[self.grid]
        axes = [cells]
        if self.heads != "none":
            axes.append("h: H" if self.heads == "plain" else "h: HV")
        if self.block is not None:
            axes.append('vb: "blocks(V, VB)"')
        return "{" + ", ".join(axes) + "}"


def draw_setting(choices: Choices) -> Setting:
    grid = choices.pick(_GRIDS)
    chunk, keys, values = (choices.pick(EXTENTS) for _ in range(3))
    if choices.chance(2):
        keys = values = chunk
    n_blocks = choices.count(1, _MAX_BLOCKS) if choices.chance(2) else 0
    letters = [Letter(name="i", symbol="C", extent=chunk), Letter(name="j", symbol="C", extent=chunk)]
    letters += [Letter(name="d", symbol="K", extent=keys), Letter(name="b", symbol="K", extent=keys)]
    letters.append(Letter(name="e", symbol="VB" if n_blocks else "V", extent=values, is_block=n_blocks > 0))
    dims = [("C", chunk), ("K", keys), ("V", values * max(n_blocks, 1))]
    if n_blocks:
        dims.append(("VB", values))
    return Setting(
        grid=grid,
        heads=choices.pick(_HEADS),
        dims=tuple(dims),
        letters=tuple(letters),
        rows=_draw_rows(choices, letters) if choices.chance(2) else (),
    )


def _draw_rows(choices: Choices, letters: list[Letter]) -> tuple[Letter, ...]:
    """Letters of one extent: of one symbol, or all that have it."""
    first = choices.pick(letters)
    equal = [letter for letter in letters if letter.extent == first.extent]
    return tuple(equal if choices.chance(2) else [letter for letter in equal if letter.symbol == first.symbol])
