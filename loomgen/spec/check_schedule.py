"""The schedule section to a :class:`Schedule`: its names exist, its numbers are static and divide what they cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from loomgen.errors import Span
from loomgen.ir.schedule import Place, ProductAtom, Role, Schedule, Split
from loomgen.ir.types import Index
from loomgen.spec.codes import Code
from loomgen.spec.model import Number, RoleModel, ScheduleModel, SplitModel
from loomgen.spec.report import Reject, did_you_mean
from loomgen.spec.sections import SectionReader
from loomgen.spec.source import Loc
from loomgen.spec.statics import origin
from loomgen.spec.syntax import parse_expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """The left sides of a program: ``tiles``, ``looped`` (the tiles assigned inside a loop) and ``stores``."""

    tiles: tuple[str, ...]
    looped: tuple[str, ...]
    stores: tuple[str, ...]


def read_schedule(reader: SectionReader, indices: Mapping[str, Index], statements: Statements) -> Schedule:
    """The schedule of one expansion; what is wrong is recorded in the reader's diagnostics and left out."""
    return _ScheduleReader(reader, indices, statements).schedule()


@dataclass(frozen=True, slots=True)
class _ScheduleReader:
    reader: SectionReader
    indices: Mapping[str, Index]
    statements: Statements

    def schedule(self) -> Schedule:
        model = self.reader.model.schedule
        self._needs_roles(model)
        return Schedule(
            warps=self._optional(model.warps, ("schedule", "warps")),
            rows=tuple(self._rows(model.rows)),
            splits=tuple(self._splits(model.split)),
            rings=tuple(self._rings(model.rings)),
            place=tuple(self._places(model.place)),
            min_blocks=self._optional(model.min_blocks, ("schedule", "min_blocks")),
            vector=self._optional(model.vector, ("schedule", "vector")),
            spans=tuple(self._spans()),
            roles=tuple(self._roles(model.roles)),
            atom=ProductAtom(model.atom),
            boxes=tuple(self._boxes(model.tma)),
            formulas=tuple(self._formulas()),
        )

    def _formulas(self) -> Iterator[tuple[str, str]]:
        model = self.reader.model.schedule
        numbers: dict[str, Number | None] = {key: getattr(model, key) for key in ("warps", "min_blocks", "vector")}
        numbers |= {f"rings.{name}": depth for name, depth in model.rings.items()}
        for letter, split in model.split.items():
            numbers |= {f"split.{letter}.parts": split.parts, f"split.{letter}.across": split.across}
        yield from ((key, text) for key, text in numbers.items() if isinstance(text, str))

    def _spans(self) -> Iterator[tuple[str, Span]]:
        document = self.reader.document
        for key in (loc for loc in document.keys if loc[:1] == ("schedule",)):
            match key:
                case (_, str(name)):
                    yield name, document.value_span(key)
                case (_, str(name), str(entry)):
                    yield f"{name}.{entry}", document.key_span(key)

    def _optional(self, value: Number | None, loc: Loc) -> int | None:
        if value is None:
            return None
        with self.reader.diagnostics.collecting():
            return self.reader.number(value, loc)
        return None

    def _rows(self, rows: list[str]) -> Iterator[str]:
        document = self.reader.document
        for k, letter in enumerate(rows):
            with self.reader.diagnostics.collecting():
                self._index(letter, document.value_span(("schedule", "rows", k)))
                yield letter

    def _splits(self, splits: Mapping[str, SplitModel]) -> Iterator[Split]:
        for letter, split in splits.items():
            loc: Loc = ("schedule", "split", letter)
            with self.reader.diagnostics.collecting():
                index = self._index(letter, self.reader.document.key_span(loc))
                parts = self.reader.number(split.parts, (*loc, "parts"))
                across = self.reader.number(split.across, (*loc, "across"))
                self._divides(
                    split.parts, parts, f"the extent {index.extent} of `{letter}`", index.extent, (*loc, "parts")
                )
                self._divides(split.across, across, f"parts={parts}", parts, (*loc, "across"))
                yield Split(index=letter, parts=parts, across=across)

    def _divides(self, shown: Number, value: int, whole: str, size: int, loc: Loc) -> None:
        if size % value == 0:
            return
        what = f"{loc[-1]}={value}" if isinstance(shown, int) else f"{loc[-1]}: {shown}={value}"
        raise Reject(Code.BAD_SPLIT, self._place_of(shown, loc), f"{what} does not divide {whole}")

    def _place_of(self, shown: Number, loc: Loc) -> Span:
        span = self.reader.document.value_span(loc)
        if isinstance(shown, int):
            return span
        return origin(parse_expression(self.reader.document.texts[loc]), self.reader.statics, span)

    def _rings(self, rings: Mapping[str, Number]) -> Iterator[tuple[str, int]]:
        for name, depth in rings.items():
            with self.reader.diagnostics.collecting():
                yield name, self._ring(name, depth, ("schedule", "rings", name))

    def _ring(self, name: str, depth: Number, loc: Loc) -> int:
        span = self.reader.document.key_span(loc)
        self._known(name, self.statements.tiles, span, "tile")
        if name not in self.statements.looped:
            raise Reject(Code.BAD_RING, span, f"`{name}` is not assigned in a loop: nothing to ring")
        return self.reader.number(depth, loc)

    def _places(self, places: Mapping[str, str]) -> Iterator[tuple[str, Place]]:
        for name, word in places.items():
            with self.reader.diagnostics.collecting():
                yield name, self._place(name, Place(word))

    def _place(self, name: str, place: Place) -> Place:
        span = self.reader.document.key_span(("schedule", "place", name))
        self._known(name, (*self.statements.tiles, *self.statements.stores), span, "statement")
        if place is Place.DIRECT and name not in self.statements.stores:
            raise Reject(Code.BAD_PLACE, span, f"`{name}` is not a store: only a store can be direct")
        return place

    def _roles(self, roles: Mapping[str, RoleModel]) -> Iterator[Role]:
        """Each statement has one role: the one that names it, or the one that runs the rest."""
        owners: dict[str, str] = {}
        for name, role in roles.items():
            loc: Loc = ("schedule", "roles", name)
            with self.reader.diagnostics.collecting():
                yield Role(
                    name=name,
                    warps=self.reader.number(role.warps, (*loc, "warps")),
                    registers=self._optional(role.registers, (*loc, "registers")),
                    runs=None if role.runs == "rest" else tuple(self._runs(name, role.runs, owners)),
                )
        n_rest = sum(role.runs == "rest" for role in roles.values())
        if roles and n_rest != 1:
            span = self.reader.document.key_span(("schedule", "roles"))
            message = f"{n_rest} roles run the rest: want one, so that every statement has a role"
            self.reader.diagnostics.add(Code.BAD_ROLE, span, message)

    def _needs_roles(self, model: ScheduleModel) -> None:
        """What the hardware does beside the threads is waited for between roles."""
        for key, is_asked in (("atom", model.atom == "wgmma"), ("tma", bool(model.tma))):
            if is_asked and not model.roles:
                span = self.reader.document.key_span(("schedule", key))
                message = f"`{key}` asks for the hardware beside the threads: only roles hand tiles to it"
                self.reader.diagnostics.add(Code.BAD_ROLE, span, message)

    def _runs(self, role: str, runs: Iterable[str], owners: dict[str, str]) -> Iterator[str]:
        for k, name in enumerate(runs):
            span = self.reader.document.value_span(("schedule", "roles", role, "runs", k))
            self._known(name, (*self.statements.tiles, *self.statements.stores), span, "statement")
            if owners.setdefault(name, role) != role:
                raise Reject(Code.BAD_ROLE, span, f"`{name}` is run by the roles `{owners[name]}` and `{role}`")
            yield name

    def _boxes(self, names: Iterable[str]) -> Iterator[str]:
        for k, name in enumerate(names):
            with self.reader.diagnostics.collecting():
                span = self.reader.document.value_span(("schedule", "tma", k))
                self._known(name, (*self.statements.tiles, *self.statements.stores), span, "statement")
                yield name

    def _index(self, letter: str, span: Span) -> Index:
        if letter in self.indices:
            return self.indices[letter]
        hint = "the index letters are " + ", ".join(self.indices)
        raise Reject(Code.UNKNOWN_INDEX, span, f"no index `{letter}`", hint)

    def _known(self, name: str, known: tuple[str, ...], span: Span, kind: str) -> None:
        if name not in known:
            raise Reject(Code.UNKNOWN_STATEMENT, span, f"no {kind} `{name}` in the program", did_you_mean(name, known))
