"""Element-wise expressions over the tiles that are known, valid by construction."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loomgen.fuzz.choices import Choices
from loomgen.fuzz.setting import Letter
from loomgen.fuzz.tensors import FLOATS, Place, Tensors

HALVES = ("bf16", "f16")
_CONSTANTS = ("0.5", "-1.25", "2.0", "0.1", "0.0")
_UNARY = (
    "-({x})",
    "abs({x})",
    "exp2(-abs({x}))",
    "exp2(min({x}, 0.0))",
    "exp(-abs({x}))",
    "log(1.0 + abs({x}))",
    "sqrt(abs({x}))",
    "rsqrt(abs({x}) + 1.0)",
    "sigmoid({x})",
    "f32(bf16({x}))",
    "f32(f16({x}))",
)
_BINARY = (
    "({x} + {y})",
    "({x} - {y})",
    "{x}*{y}",
    "max({x}, {y})",
    "min({x}, {y})",
    "{x}/(1.0 + abs({y}))",
    "fma({x}, {y}, {x})",
)

_ARITHMETIC = _BINARY[:3]
"""What widens narrow operands by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A value that the program has defined."""

    name: str
    dtype: str
    letters: tuple[Letter, ...]

    def at(self, subscripts: tuple[str, ...]) -> str:
        return f"{self.name}[{','.join(subscripts)}]" if subscripts else self.name

    @property
    def plain(self) -> str:
        """The value at its own letters."""
        return self.at(tuple(letter.name for letter in self.letters))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expressions:
    """Draws the text of fp32 expressions at one place of the program."""

    choices: Choices
    tensors: Tensors
    place: Place
    tiles: tuple[Tile, ...]
    scalars: tuple[str, ...]
    integers: tuple[str, ...]

    def value(self, letters: tuple[Letter, ...], depth: int = 3) -> str:
        """An f32 expression over the letters."""
        kind = self.choices.count(0, 5 if depth > 0 else 0)
        match kind:
            case 0 | 1:
                return self._leaf(letters)
            case 2 | 3:
                x, y = self.value(letters, depth - 1), self._second(letters, depth - 1)
                form = self.choices.pick(_BINARY)
                if form in _ARITHMETIC and y not in _CONSTANTS and self.choices.chance(3):
                    x, y = self._widened_by_use(x), self._widened_by_use(y)
                return form.format(x=x, y=y)
            case 4:
                return self.choices.pick(_UNARY).format(x=self.value(letters, depth - 1))
            case _:
                return self._select(letters, depth - 1)

    def rounded(self, letters: tuple[Letter, ...], dtype: str, depth: int = 3) -> str:
        """An expression of the dtype over the letters; perhaps a run of a tile that has it already, or a selection of
        such tiles."""
        own = [read for tile in self.tiles if tile.dtype == dtype for read in reads_of(tile, letters)]
        runs = [read for read in own if "+" in read]
        if runs and self.choices.chance(3):
            return self.choices.pick(runs)
        if own and dtype != "f32" and self.choices.chance(4):
            x, y = self.choices.pick(own), self.choices.pick(own)
            return f"{x} if {self.condition(letters)} else {y}"
        text = self.value(letters, depth)
        return text if dtype == "f32" else f"{dtype}({text})"

    def covering(self, letters: tuple[Letter, ...], depth: int) -> str:
        """An expression that depends on every one of the letters, as the arguments of sums must."""
        text = self.value(letters, depth)
        missing = [letter.name for letter in letters if not re.search(rf"\b{letter.name}\b", text)]
        return " + ".join([text, *(_spread(name) for name in missing)])

    def condition(self, letters: tuple[Letter, ...], depth: int = 1) -> str:
        """A condition on the letters, on values, or on the place of the cell."""
        kinds = ["value", "value"] + (["letter"] * 3 if letters else [])
        if self.place.has_chunk and any(letter.symbol == "C" for letter in letters):
            kinds.append("length")
        match self.choices.pick(kinds):
            case "letter":
                return self._letters_compared(letters)
            case "length":
                token = next(letter for letter in letters if letter.symbol == "C")
                return f"{token.name} < c.len"
            case _:
                return f"{self.value(letters, depth - 1)} {self.choices.pick(('<', '>=', '=='))} {self._constant()}"

    def _letters_compared(self, letters: tuple[Letter, ...]) -> str:
        first, last = letters[0].name, letters[-1].name
        options = [f"{first} < 5", f"{last} % 2 == 0", f"0 < {last} < 9"]
        if len(letters) == 2:
            options = [f"{last} <= {first}", f"{last} < {first}", f"{first} == {last}", *options]
        return self.choices.pick(options)

    def _select(self, letters: tuple[Letter, ...], depth: int) -> str:
        x, y = self.value(letters, depth), self._second(letters, depth)
        return f"({x} if {self.condition(letters)} else {y})"

    def _second(self, letters: tuple[Letter, ...], depth: int) -> str:
        return self._constant() if self.choices.chance(3) else self.value(letters, depth)

    def _constant(self) -> str:
        return self.choices.pick(_CONSTANTS)

    def _widened_by_use(self, text: str) -> str:
        """A floating value without the widening that is written around it."""
        found = re.fullmatch(r"f32\(((x\d+)(?:\[[^][]*\])?)\)", text)
        floats = {tile.name for tile in self.tiles if tile.dtype in FLOATS}
        return text if found is None or found.group(2) not in floats else found.group(1)

    def _leaf(self, letters: tuple[Letter, ...]) -> str:
        reads = [read for tile in self.tiles for read in reads_of(tile, letters)]
        others = [_spread(name) for name in (*(letter.name for letter in letters), *self.integers)]
        others += list(self.scalars)
        kind = self.choices.count(0, 7)
        if reads and (kind < 5 or (kind < 7 and not others)):
            return f"f32({self.choices.pick(reads)})"
        if others and kind < 7:
            return self.choices.pick(others)
        name, coords = self.tensors.read(letters, self.choices.pick(FLOATS), self.place)
        return f"f32({name}[{coords}])"


def _spread(integer: str) -> str:
    """A small number for each value of an integer."""
    return f"0.0625*f32({integer})"


def reads_of(tile: Tile, letters: tuple[Letter, ...]) -> list[str]:
    """The ways to read a tile at these letters: straight, transposed, its diagonal, runs of it, an element of it."""
    options = [
        [letter.name for letter in letters if letter.symbol == axis.symbol]
        + [run for letter in letters for run in _runs(axis, letter)]
        + _elements(axis, tile)
        for axis in tile.letters
    ]
    if not options:
        return [tile.name]
    if len(options) == 1:
        return [tile.at((subscript,)) for subscript in options[0]]
    return [tile.at((a, b)) for a in options[0] for b in options[1]]


def whole_reads_of(tile: Tile, letters: tuple[Letter, ...]) -> list[str]:
    """The ways to read every element of a tile at two letters: straight and transposed."""
    symbols = [letter.symbol for letter in tile.letters]
    orders = (letters, letters[::-1])
    return [
        tile.at(tuple(letter.name for letter in order))
        for order in orders
        if [letter.symbol for letter in order] == symbols
    ]


def _runs(axis: Letter, letter: Letter) -> list[str]:
    """The first and the last run of a letter of another symbol, or with fewer values than the axis."""
    rest = axis.extent - letter.extent
    return [f"{letter.name}+{first}" for first in sorted({0, rest})] if rest >= (letter.symbol == axis.symbol) else []


def _elements(axis: Letter, tile: Tile) -> list[str]:
    """A vector's first and last element."""
    return ["0", f"{axis.symbol}-1"] if len(tile.letters) == 1 else []
