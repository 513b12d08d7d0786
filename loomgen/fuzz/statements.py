"""The statements of a generated program, one way to draw each kind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from loomgen.fuzz.choices import Choices
from loomgen.fuzz.expressions import HALVES, Expressions, Tile, whole_reads_of
from loomgen.fuzz.setting import Letter, Setting
from loomgen.fuzz.tensors import FLOATS, Place, Tensors

_INDENT = "    "


@dataclass(slots=True)
class Names:
    """Fresh names, the scalar arguments used so far, and what a schedule may speak of: names of tiles assigned in
    loops, of stores, of 16-bit tiles; letters that products or reductions of tiles run over, and those that the
    products' rows run along.
    """

    count: int = 0
    scalars: dict[str, str] = field(default_factory=dict)
    looped: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)
    contracted: list[Letter] = field(default_factory=list)
    reduced: list[Letter] = field(default_factory=list)
    products: list[Letter] = field(default_factory=list)
    halves: list[str] = field(default_factory=list)
    has_inverse: bool = False

    def fresh(self) -> str:
        self.count += 1
        return f"x{self.count - 1}"


@dataclass(slots=True)
class Block:
    """A block under construction: its lines and the tiles that can be read in it."""

    choices: Choices
    setting: Setting
    tensors: Tensors
    names: Names
    place: Place
    tiles: list[Tile]
    integers: tuple[str, ...]
    depth: int = 0
    lines: list[str] = field(default_factory=list)

    def inner(self, place: Place, integers: tuple[str, ...] = ()) -> Block:
        return replace(
            self,
            place=place,
            tiles=list(self.tiles),
            integers=(*self.integers, *integers),
            depth=self.depth + 1,
            lines=[],
        )

    def say(self, line: str) -> None:
        self.lines.append(_INDENT * self.depth + line)

    def add(self, block: Block) -> None:
        self.lines += block.lines

    @property
    def expressions(self) -> Expressions:
        return Expressions(
            choices=self.choices,
            tensors=self.tensors,
            place=self.place,
            tiles=tuple(self.tiles),
            scalars=("scale",) if "scale" in self.names.scalars else (),
            integers=self.integers,
        )

    def define(self, letters: tuple[Letter, ...], dtype: str, text: str, name: str | None = None) -> Tile:
        tile = Tile(name=name or self.names.fresh(), dtype=dtype, letters=letters)
        self.say(f"{tile.plain} = {text}")
        self.tiles.append(tile)
        if self.place.in_loop:
            self.names.looped.append(tile.name)
        return tile

    # ------------------------------------------------------------------ letters

    def letters(self, rank: int) -> tuple[Letter, ...]:
        """Different letters; where warps own rows, a pair has a row letter."""
        rows = self.setting.rows
        if rank < 2 or not rows:
            return self.choices.sample(self.setting.letters, rank)
        row = self.choices.pick(rows)
        other = self.choices.pick([letter for letter in self.setting.letters if letter != row])
        return (other, row) if self.choices.chance(4) else (row, other)

    def new_letters(self) -> tuple[Letter, ...]:
        return self.letters(self.choices.pick((2, 2, 1, 2, 0)))

    # ------------------------------------------------------------------ element-wise statements

    def load(self) -> None:
        """A copy; a 16-bit one may have any letters."""
        rank, dtype = self.choices.pick((2, 2, 1, 0)), self.choices.pick(("bf16", "f32", "f16"))
        dtype = "i32" if rank < 2 and self.choices.chance(6) else dtype
        any_letters = dtype in HALVES or not self.setting.rows
        letters = self.choices.sample(self.setting.letters, rank) if any_letters else self.letters(rank)
        name, coords = self.tensors.read(letters, dtype, self.place)
        self.define(letters, dtype, f"{name}[{coords}]")

    def gather(self) -> None:
        """A slot, by which tensors are then read."""
        name, coords = self.tensors.read((), "i32", self.place)
        slot = self.names.fresh()
        self.say(f"{slot} = {name}[{coords}]")
        self.place = replace(self.place, slots=(*self.place.slots, slot))
        self.integers = (*self.integers, slot)

    def map(self) -> None:
        letters, dtype = self.new_letters(), self.choices.pick(FLOATS)
        tile = self.define(letters, dtype, self.expressions.rounded(letters, dtype))
        if dtype in HALVES and len(letters) == 2:
            self.names.halves.append(tile.name)

    def reduce(self) -> None:
        """Along the columns of a tile, or of a vector."""
        kept, over = self.letters(2) if self.choices.chance(2) else (None, self.letters(1)[0])
        if kept is not None and self.setting.rows and kept not in self.setting.rows:
            kept, over = over, kept
        letters = () if kept is None else (kept,)
        self.names.reduced += [over] if kept is not None else []
        operator = self.choices.pick(("sum", "max"))
        text = f"{operator}[{over.name}]({self.expressions.covering((*letters, over), 2)})"
        scaled = f"0.125*{text}" if self.choices.chance(3) else text
        self.define(letters, "f32", scaled)

    def scan(self) -> None:
        letter = self.letters(1)[0]
        operator = self.choices.pick(("cumsum", "suffix_sum"))
        self.define((letter,), "f32", f"{operator}[{letter.name}]({self.expressions.covering((letter,), 2)})")

    # ------------------------------------------------------------------ products

    def product(self) -> None:
        value = self._product_letters()
        if value is None:
            return
        text = self.product_text(value)
        kind = self.choices.count(0, 4)
        at = self.expressions
        match kind:
            case 0:
                self.define(value, "f32", text)
            case 1:
                self.define(value, "f32", f"0.25*({text})")
            case 2:
                self.define(value, "f32", f"{self.seed(value)} + {text}")
            case 3:
                dtype = self.choices.pick(HALVES)
                masked = f"{at.value(value, 1)}*({text}) if {at.condition(value)} else 0"
                self.define(value, dtype, f"{dtype}({masked})")
            case _:
                self.define(value, "f32", f"({text}) - {at.value(value, 1)}")

    def seed(self, letters: tuple[Letter, ...]) -> str:
        """What a sum starts from: a tile as it is, or an expression."""
        plain = [read for tile in self.tiles if tile.dtype == "f32" for read in whole_reads_of(tile, letters)]
        if plain and self.choices.chance(2):
            return self.choices.pick(plain)
        return self.expressions.value(letters, 1)

    def _product_letters(self) -> tuple[Letter, Letter] | None:
        """A row letter first."""
        if not self.setting.rows:
            return None
        row = self.choices.pick(self.setting.rows)
        return row, self.choices.pick([letter for letter in self.setting.letters if letter != row])

    def product_text(self, value: tuple[Letter, Letter]) -> str:
        over = self.choices.pick([letter for letter in self.setting.letters if letter not in value])
        self.names.contracted.append(over)
        self.names.products.append(value[0])
        dtype = "tf32" if self.choices.chance(8) else self.choices.pick(HALVES)
        a, b = (self._operand((letter, over), dtype) for letter in value)
        return f"{b} @ {a}" if self.choices.chance(5) else f"{a} @ {b}"

    def _operand(self, letters: tuple[Letter, Letter], dtype: str) -> str:
        """A tile that has the dtype and letters of these symbols, else an expression rounded to it."""
        known = [read for tile in self.tiles if tile.dtype == dtype for read in whole_reads_of(tile, letters)]
        if known and not self.choices.chance(4):
            return self.choices.pick(known)
        if not self.setting.rows or any(letter in self.setting.rows for letter in letters):
            return f"{dtype}({self.expressions.covering(letters, 2)})"
        if dtype == "tf32":
            return f"tf32({self.expressions.covering(letters, 0)})"
        name, coords = self.tensors.read(letters, dtype, self.place)
        tile = self.define(letters, dtype, f"{name}[{coords}]")
        return tile.plain

    def inverse(self) -> None:
        """Of a strictly lower triangular tile of small numbers."""
        tokens = tuple(letter for letter in self.setting.letters if letter.symbol == "C")
        if any(letter not in self.setting.rows for letter in tokens):
            return
        row, col = tokens
        below = f"0.125*sigmoid({self.expressions.value(tokens, 1)}) if {col.name} < {row.name} else 0"
        lower = self.define(tokens, "f32", below)
        self.names.has_inverse = True
        self.define(tokens, "f32", f"unit_lower_inverse[{row.name},{col.name}]({lower.plain})")

    # ------------------------------------------------------------------ stores

    def store(self) -> None:
        """A tile, as it is or rounded, to a tensor of its own."""
        if not self.tiles or self.depth > int(self.place.in_loop):
            return
        recent = self.tiles[-4:]
        self.store_tile(self.choices.pick(recent[::-1]))

    def store_tile(self, tile: Tile) -> bool:
        dtype = tile.dtype if tile.dtype != "f32" and self.choices.chance(2) else self.choices.pick(FLOATS)
        optional = self.choices.chance(8)
        letters = self._relettered(tile.letters) if self.choices.chance(3) else tile.letters
        target = self.tensors.write(letters, dtype, self.place, optional=optional)
        if target is None:
            return False
        name, coords = target
        read = self.choices.pick(whole_reads_of(tile, letters))
        source = read if dtype == tile.dtype else f"{dtype}(f32({read}))"
        if optional:
            self.say(f"if given({name}):")
        self.say(f"{_INDENT if optional else ''}{name}[{coords}] = {source}")
        self.names.stored.append(name)
        return True

    def _relettered(self, letters: tuple[Letter, ...]) -> tuple[Letter, ...]:
        """Other letters of the same symbols, all different; what a store calls a tile's indices, transposed or not."""
        found: list[Letter] = []
        for letter in letters:
            same = [other for other in self.setting.letters if other.symbol == letter.symbol and other not in found]
            found.append(self.choices.pick(same))
        return tuple(found)

    def update(self) -> None:
        """An element read, changed and stored in place."""
        if self.depth > int(self.place.in_loop):
            return
        letters, dtype = self.new_letters(), self.choices.pick(FLOATS)
        target = self.tensors.update(letters, dtype, self.place)
        if target is None:
            return
        name, coords = target
        old = self.define(letters, dtype, f"{name}[{coords}]")
        self.say(f"{name}[{coords}] = {dtype}({self.expressions.value(letters, 1)} + f32({old.plain}))")
