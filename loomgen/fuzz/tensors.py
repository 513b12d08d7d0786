"""The tensors of a generated stage: declared as statements come to need them, owned where they are stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from loomgen.fuzz.choices import Choices
from loomgen.fuzz.setting import Letter, Setting

Access = Literal["in", "out", "inout"]
FLOATS = ("f32", "bf16", "f16")
_STRIDES = ("contiguous", "rows", "free")


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A dimension of a tensor: its size in the declaration, and what addresses it; a letter does where it is empty."""

    size: str
    coordinate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A tensor argument of the stage."""

    name: str
    access: Access
    dtype: str
    axes: tuple[Axis, ...]
    strides: str
    optional: bool = False
    distinct: bool = False

    def text(self) -> str:
        extra = "".join(
            part
            for part, wanted in (
                (f", strides: {self.strides}", self.strides != "contiguous"),
                (", optional: true", self.optional),
                (", distinct: true", self.distinct),
            )
            if wanted
        )
        shape = ", ".join(axis.size for axis in self.axes)
        return f"  {self.name}: {{access: {self.access}, dtype: {self.dtype}, shape: [{shape}]{extra}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What is known where a statement stands: a window of tokens, whether it is a loop's, the sequence's own slot, the
    slots that anyone may read.
    """

    has_chunk: bool
    in_loop: bool
    has_slot: bool = False
    slots: tuple[str, ...] = ()


@dataclass(slots=True)
class Tensors:
    """The tensors declared so far."""

    choices: Choices
    setting: Setting
    declared: list[Declared] = field(default_factory=list)

    def index(self) -> str:
        """The slots of the sequences, each of its own."""
        return self._declare("in", "i32", (Axis(size="N", coordinate="n"),), distinct=True).name

    def read(self, letters: tuple[Letter, ...], dtype: str, place: Place, *, optional: bool = False) -> tuple[str, str]:
        """The name and the coordinates of a tensor that has an element for each value of the letters."""
        axes = self._read_axes(letters, place)
        known = [t for t in self.declared if t.access == "in" and t.dtype == dtype and not t.optional]
        same = [t for t in known if [axis.size for axis in t.axes] == [axis.size for axis in axes] and not t.distinct]
        if same and not optional and self.choices.chance(2):
            return same[0].name, coordinates(axes)
        return self._declare("in", dtype, axes, optional=optional).name, coordinates(axes)

    def update(self, letters: tuple[Letter, ...], dtype: str, place: Place) -> tuple[str, str] | None:
        """The same for a tensor that is read and stored in place; None where no element could be owned."""
        axes = self._owned_axes(letters, place)
        return None if axes is None else (self._declare("inout", dtype, axes).name, coordinates(axes))

    def write(
        self, letters: tuple[Letter, ...], dtype: str, place: Place, *, optional: bool = False
    ) -> tuple[str, str] | None:
        """The same for a tensor that is stored."""
        axes = self._owned_axes(letters, place)
        return None if axes is None else (self._declare("out", dtype, axes, optional=optional).name, coordinates(axes))

    def _declare(
        self, access: Access, dtype: str, axes: tuple[Axis, ...], *, optional: bool = False, distinct: bool = False
    ) -> Declared:
        strides = self.choices.pick(_STRIDES) if self.choices.chance(3) and not distinct else "contiguous"
        name = f"{'t' if access == 'in' else 'o'}{len(self.declared)}"
        tensor = Declared(
            name=name, access=access, dtype=dtype, axes=axes, strides=strides, optional=optional, distinct=distinct
        )
        self.declared.append(tensor)
        return tensor

    def _read_axes(self, letters: tuple[Letter, ...], place: Place) -> tuple[Axis, ...]:
        token = self._token_letter(letters, place)
        if token is not None:
            return (_tokens(self._token_offset(token, place)), *self._heads(), *self._rest(letters, token))
        leading = [*self._cells(place), *([()] if letters else [])]
        leading += [(Axis(size="SLOTS", coordinate=slot),) for slot in place.slots]
        return (*self.choices.pick(leading), *self._heads(), *self._rest(letters, None))

    def _owned_axes(self, letters: tuple[Letter, ...], place: Place) -> tuple[Axis, ...] | None:
        """Axes that tell the cell and the iteration of the loop."""
        block = self.setting.block
        if block is not None and block not in letters:
            return None
        token = self._token_letter(letters, place)
        head = () if self.setting.heads == "none" else (self._head(),)
        if token is not None:
            return (_tokens(token.name), *head, *self._rest(letters, token))
        cell = self._cells(place)
        owned = cell[-1] if place.has_chunk else self.choices.pick(cell)
        return (*owned, *head, *self._rest(letters, None))

    def _cells(self, place: Place) -> list[tuple[Axis, ...]]:
        """Ways to address the cell: by its sequence, its slot, or its chunk, which comes last."""
        found: list[tuple[Axis, ...]] = []
        if self.setting.grid != "chunks":
            found.append((Axis(size="N", coordinate="n"),))
        if place.has_slot:
            found.append((Axis(size="SLOTS", coordinate="slot"),))
        if place.has_chunk:
            found.append((Axis(size="NC", coordinate="c"),))
        return found

    def _token_letter(self, letters: tuple[Letter, ...], place: Place) -> Letter | None:
        if not place.has_chunk:
            return None
        candidates = [letter for letter in letters if letter.symbol == "C"]
        return self.choices.pick(candidates) if candidates and not self.choices.chance(5) else None

    def _token_offset(self, letter: Letter, place: Place) -> str:
        """Mostly the token itself; the last one again past a short chunk's end; another one of the sequence."""
        if not self.choices.chance(5):
            return letter.name
        clamped = f"min({letter.name}, c.last)"
        return self.choices.pick((clamped, f"{letter.name} - 1", f"{letter.name} + 2")) if place.in_loop else clamped

    def _heads(self) -> tuple[Axis, ...]:
        if self.setting.heads == "none" or self.choices.chance(6):
            return ()
        if self.setting.heads == "grouped" and self.choices.chance(2):
            return (Axis(size="H", coordinate="hk"),)
        return (self._head(),)

    def _head(self) -> Axis:
        return Axis(size="H" if self.setting.heads == "plain" else "HV", coordinate="h")

    def _rest(self, letters: tuple[Letter, ...], token: Letter | None) -> tuple[Axis, ...]:
        rest = [Axis(size=letter.dim, coordinate=letter.coordinate) for letter in letters if letter is not token]
        return tuple(reversed(rest) if len(rest) == 2 and self.choices.chance(3) else rest)


def _tokens(offset: str) -> Axis:
    return Axis(size="T", coordinate=f"c[{offset}]")


def coordinates(axes: tuple[Axis, ...]) -> str:
    return ",".join(axis.coordinate for axis in axes)
