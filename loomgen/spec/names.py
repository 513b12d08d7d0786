"""The names of a spec file: each is well formed, and no two sections declare the same one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from loomgen.errors import Span
from loomgen.spec.codes import Code
from loomgen.spec.declarations import CODE_WORDS, OWN_WORDS
from loomgen.spec.model import SpecModel
from loomgen.spec.report import Collector
from loomgen.spec.source import Document, Loc

_WORDS = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
_WORDS_FORM = "lower case words joined by `_`"
_LETTER = re.compile(r"[a-z][0-9]?")
_UPPER = re.compile(r"[A-Z][A-Z0-9]*")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")

_SECTION_FORMS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "dims": (_UPPER, "upper case letters and digits"),
    "params": (_IDENTIFIER, "an identifier"),
    "dtypes": (_IDENTIFIER, "an identifier"),
    "tensors": (_IDENTIFIER, "an identifier"),
    "scalars": (_IDENTIFIER, "an identifier"),
    "index": (_LETTER, "one lower case letter and perhaps a digit"),
    "grid": (_IDENTIFIER, "an identifier"),
    "where": (_IDENTIFIER, "an identifier"),
}


def check_names(document: Document, model: SpecModel, diagnostics: Collector) -> None:
    """Record every badly formed name and every name that stands for two things."""
    for part in ("stage", "family"):
        if not _WORDS.fullmatch(getattr(model, part)):
            _bad(document.value_span((part,)), getattr(model, part), _WORDS_FORM, diagnostics)
    expansions: list[Loc] = [("variants", name) for name in model.variants]
    expansions += [("instantiations", name) for name in model.instantiations]
    for loc, pattern, wanted in (*((loc, _WORDS, _WORDS_FORM) for loc in expansions), *_declared(model)):
        if not pattern.fullmatch(str(loc[-1])):
            _bad(document.key_span(loc), str(loc[-1]), wanted, diagnostics)
    _check_clashes(document, (loc for loc, _, _ in _declared(model)), diagnostics)
    _check_code(document, model, diagnostics)
    _check_variants(document, model, diagnostics)


def _declared(model: SpecModel) -> Iterator[tuple[Loc, re.Pattern[str], str]]:
    for section, (pattern, wanted) in _SECTION_FORMS.items():
        for name in getattr(model, section):
            yield (section, name), pattern, wanted
    for variant, values in list(model.variants.items())[:1]:
        for name in values:
            yield ("variants", variant, name), *_SECTION_FORMS["dims"]


def _bad(span: Span, name: str, wanted: str, diagnostics: Collector) -> None:
    diagnostics.add(Code.BAD_NAME, span, f"`{name}` is not a name of this kind: want {wanted}")


def _check_clashes(document: Document, locs: Iterable[Loc], diagnostics: Collector) -> None:
    first: dict[str, Loc] = {}
    for loc in locs:
        name = str(loc[-1])
        if name in OWN_WORDS:
            diagnostics.add(Code.NAME_CLASH, document.key_span(loc), f"`{name}` is a word of the language")
        elif name in first:
            message = f"`{name}` is declared in `{first[name][0]}` already"
            diagnostics.add(Code.NAME_CLASH, document.key_span(loc), message)
        else:
            first[name] = loc


def _check_code(document: Document, model: SpecModel, diagnostics: Collector) -> None:
    """Arguments and coordinates of the grid keep their names in a kernel's interface and its letters."""
    strides = {name for tensor in model.tensors for name in _strides(model, tensor)}
    declared: list[Loc] = [(part, name) for part in ("tensors", "scalars", "grid") for name in getattr(model, part)]
    for loc in (loc for loc in declared if loc[-1] in CODE_WORDS | strides):
        message = f"kernels have something else called `{loc[-1]}`"
        diagnostics.add(Code.NAME_CLASH, document.key_span(loc), message)


def _strides(model: SpecModel, tensor: str) -> tuple[str, ...]:
    """The arguments that a tensor with strides brings along."""
    has_any = model.tensors[tensor].strides != "contiguous"
    return tuple(f"{tensor}_stride{axis}" for axis in range(len(model.tensors[tensor].shape)) if has_any)


def _check_variants(document: Document, model: SpecModel, diagnostics: Collector) -> None:
    """All variants give the same names, and each name is used somewhere."""
    variants = list(model.variants.items())
    for variant, values in variants[1:]:
        missing = [name for name in variants[0][1] if name not in values]
        extra = [name for name in values if name not in variants[0][1]]
        for name in extra:
            message = f"variant `{variants[0][0]}` does not give `{name}`"
            diagnostics.add(Code.VARIANT_NAMES, document.key_span(("variants", variant, name)), message)
        for name in missing:
            message = f"variant `{variant}` does not give `{name}`"
            diagnostics.add(Code.VARIANT_NAMES, document.key_span(("variants", variant)), message)
    words = _words_used(document)
    for variant, values in variants[:1]:
        for name in (name for name in values if name not in words):
            span = document.key_span(("variants", variant, name))
            diagnostics.add(Code.UNUSED_VARIANT_NAME, span, f"`{name}` is used nowhere in this file")


def _words_used(document: Document) -> frozenset[str]:
    texts = (
        text.value
        for loc, text in document.texts.items()
        if loc[0] not in ("about", "variants", "instantiations") and loc[2:] != ("about",)
    )
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))
