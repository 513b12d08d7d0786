"""A YAML file with the place of everything in it: plain data, and a span for each key, value and text."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import yaml

from loomgen.errors import InternalError, Span
from loomgen.spec.codes import Code
from loomgen.spec.report import Reject

Loc = tuple[str | int, ...]
"""The way to an item: ``("tensors", "kn", "shape", 0)``."""

Data = str | int | float | bool | None | list["Data"] | dict[str, "Data"]

_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string of the file: line 1, column 0 of ``value`` is at ``line``, ``col`` (from 1) of the file.

    Every line of a literal block is indented by ``col - 1`` columns, so one offset holds for all its lines.
    """

    value: str
    path: str
    line: int
    col: int
    is_literal: bool = False

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """The place of a syntax node; of a node over several lines, what is on its first line."""
        rows = self.value.split("\n")
        row = rows[node.lineno - 1]
        last = node.end_col_offset if node.end_lineno == node.lineno else None
        begin, end = _characters(row, node.col_offset), _characters(row, last)
        return self.at(node.lineno, begin, end)

    def at(self, row: int, begin: int, end: int) -> Span:
        """The place of columns ``begin`` to ``end`` (from 0) of row ``row`` (from 1) of the text."""
        col = self.col + begin
        return Span(path=self.path, line=self.line + row - 1, col=col, end_col=max(self.col + end, col + 1))


def _characters(row: str, n_bytes: int | None) -> int:
    """``ast`` counts UTF-8 bytes; people and editors count characters. None: the whole row."""
    return len(row.rstrip()) if n_bytes is None else len(row.encode()[:n_bytes].decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The data of one file and where it stands."""

    path: str
    data: dict[str, Data]
    values: Mapping[Loc, Span]
    keys: Mapping[Loc, Span]
    texts: Mapping[Loc, Text]

    def value_span(self, loc: Loc) -> Span:
        """The place of the value at ``loc``, or of the nearest item around it that exists."""
        return self.values[loc] if loc in self.values else self.value_span(loc[:-1])

    def key_span(self, loc: Loc) -> Span:
        """The place of the key at ``loc``, or of the nearest key around it that exists."""
        if loc in self.keys:
            return self.keys[loc]
        return self.key_span(loc[:-1]) if loc else self.values[()]

    def with_key(self, loc: Loc, key: str) -> Document:
        """The same with the key at ``loc`` called ``key``."""
        new = (*loc[:-1], key)

        def moved(old: Loc) -> Loc:
            return (*new, *old[len(loc) :]) if old[: len(loc)] == loc else old

        return Document(
            path=self.path,
            data=_edited(self.data, loc, key),
            values={moved(at): span for at, span in self.values.items()},
            keys={moved(at): span for at, span in self.keys.items()},
            texts={moved(at): text for at, text in self.texts.items()},
        )

    def without(self, loc: Loc) -> Document:
        """The same without the key at ``loc``, if it is there; its places stay known."""
        return replace(self, data=_edited(self.data, loc, None)) if loc else self


def _edited(data: dict[str, Data], loc: Loc, key: str | None) -> dict[str, Data]:
    """``data`` with the key at ``loc`` renamed to ``key``, or left out."""
    head, rest = loc[0], loc[1:]
    result: dict[str, Data] = {}
    for name, value in data.items():
        if name != head:
            result[name] = value
        elif rest:
            result[name] = _edited(value, rest, key) if isinstance(value, dict) else value
        elif key is not None:
            result[key] = value
    return result


@dataclass(slots=True)
class _Places:
    path: str
    lines: list[str]
    values: dict[Loc, Span] = field(default_factory=dict)
    keys: dict[Loc, Span] = field(default_factory=dict)
    texts: dict[Loc, Text] = field(default_factory=dict)

    def span(self, node: yaml.Node) -> Span:
        start, end = node.start_mark, node.end_mark
        last = end.column if end.line == start.line else len(self.lines[start.line].rstrip())
        return Span(path=self.path, line=start.line + 1, col=start.column + 1, end_col=max(last, start.column + 1) + 1)


def read_document(path: str, text: str) -> Document:
    """Parse a spec file. Raises :class:`Reject` at the first thing that is not YAML as we use it."""
    root = _compose(path, text)
    places = _Places(path, text.splitlines() or [""])
    if not isinstance(root, yaml.MappingNode):
        span = Span(path=path, line=1, col=1, end_col=2)
        raise Reject(Code.YAML, span, "a spec file is a mapping of keys to values", "start with `stage: <name>`")
    data = _convert(root, (), places)
    assert isinstance(data, dict)
    return Document(path=path, data=data, values=places.values, keys=places.keys, texts=places.texts)


def _compose(path: str, text: str) -> yaml.Node | None:
    try:
        tokens = list(yaml.scan(text, Loader=yaml.BaseLoader))
        refused = next((t for t in tokens if isinstance(t, yaml.AnchorToken | yaml.AliasToken | yaml.TagToken)), None)
        if refused is not None:
            span = _mark_span(path, text, refused.start_mark)
            raise Reject(Code.YAML, span, "anchors, aliases and tags are not used here")
        return yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Reject(Code.YAML, _mark_span(path, text, mark), error.problem or "cannot be parsed") from None
    except yaml.YAMLError as error:
        raise Reject(Code.YAML, _mark_span(path, text, None), str(error).splitlines()[0]) from None


def _mark_span(path: str, text: str, mark: yaml.Mark | None) -> Span:
    """The place of a mark; for one behind all text, the end of the last line that has any."""
    line, col = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    rows = text.rstrip().splitlines()
    if rows and line > len(rows):
        line, col = len(rows), len(rows[-1].rstrip()) + 1
    return Span(path=path, line=line, col=col, end_col=col + 1)


def _convert(node: yaml.Node, loc: Loc, places: _Places) -> Data:
    places.values[loc] = places.span(node)
    match node:
        case yaml.MappingNode():
            return _convert_mapping(node, loc, places)
        case yaml.SequenceNode():
            return [_convert(child, (*loc, i), places) for i, child in enumerate(node.value)]
        case yaml.ScalarNode():
            places.texts[loc] = _text(node, places)
            return _scalar(node)
        case _:
            raise InternalError("spec.source", f"{type(node).__name__} in a YAML tree")


def _convert_mapping(node: yaml.MappingNode, loc: Loc, places: _Places) -> Data:
    result: dict[str, Data] = {}
    for key, value in node.value:
        span = places.span(key)
        if not isinstance(key, yaml.ScalarNode):
            raise Reject(Code.YAML, span, "a key is a single word")
        if key.value in result:
            raise Reject(Code.DUPLICATE_KEY, span, f"key `{key.value}` stands twice in one mapping")
        inner: Loc = (*loc, key.value)
        places.keys[inner] = span
        result[key.value] = _convert(value, inner, places)
    return result


def _text(node: yaml.ScalarNode, places: _Places) -> Text:
    start = node.start_mark
    if node.style != "|":
        quotes = 1 if node.style in ("'", '"') else 0
        return Text(value=node.value, path=places.path, line=start.line + 1, col=start.column + 1 + quotes)
    rows = node.value.split("\n")
    first = next((k for k, row in enumerate(rows) if row.strip()), None)
    indent = 0 if first is None else len(places.lines[start.line + 1 + first]) - len(rows[first])
    return Text(value=node.value, path=places.path, line=start.line + 2, col=indent + 1, is_literal=True)


def _scalar(node: yaml.ScalarNode) -> Data:
    """Plain scalars follow YAML 1.2's core schema: ``on``, ``no`` and ``y`` are words."""
    text: str = node.value
    if node.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
