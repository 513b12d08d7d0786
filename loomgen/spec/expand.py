"""A spec file to its kernels: every variant with every instantiation, each checked and lowered to Tile IR."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from loomgen.errors import Diagnostic, Span
from loomgen.ir.kernel import KernelName, KernelSpec
from loomgen.ir.tile import Program, Stmt
from loomgen.ir.types import DType
from loomgen.spec.check_ownership import check_ownership
from loomgen.spec.check_schedule import Statements, read_schedule
from loomgen.spec.codes import Code
from loomgen.spec.declarations import DTYPES, Declarations
from loomgen.spec.digest import spec_digest
from loomgen.spec.model import TARGETS, SpecModel
from loomgen.spec.parse_stmt import lower_program
from loomgen.spec.report import Collector, Reject, Skip, did_you_mean
from loomgen.spec.sections import SectionReader
from loomgen.spec.source import Document, Loc, Text
from loomgen.spec.statics import Choice, Statics, resolve_static
from loomgen.spec.syntax import parse_program
from loomgen.spec.used import ProgramUse, used_by
from loomgen.spec.walk_program import assigned_names

BASE_VARIANT = "base"
"""The variant of a file that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expansion:
    variant: str
    instantiation: str | None
    statics: Statics
    dims: Mapping[str, int]

    @property
    def chain(self) -> tuple[str, ...]:
        """How a mistake of this expansion came about; nothing for a file that has only one kernel by itself."""
        parts = [] if self.variant == BASE_VARIANT else [f"variant {self.variant}"]
        parts += [] if self.instantiation is None else [f"instantiation {self.instantiation}"]
        return (f"in {', '.join(parts)}",) if parts else ()


def expand(document: Document, model: SpecModel, diagnostics: Collector) -> tuple[KernelSpec, ...]:
    """The kernels of one file, variant by variant; mistakes are recorded and the kernels then incomplete."""
    text = document.texts[("program",)]
    if not text.is_literal:
        hint = "write `program: |` and the statements, indented, below"
        diagnostics.add(Code.PROGRAM_STYLE, document.value_span(("program",)), "not a literal block", hint)
        return ()
    body: list[ast.stmt] = []
    with diagnostics.collecting():
        body = parse_program(text, diagnostics)
    expansions = list(_expansions(document, model, diagnostics))
    if diagnostics.found:
        return ()
    file = _File(document, model, text, body, spec_digest(model, body))
    results = [file.kernel(expansion) for expansion in expansions]
    diagnostics.found += _merged([(e, found) for e, (_, found) in zip(expansions, results, strict=True)])
    if not diagnostics.found:
        _check_unused(document, model, [kernel for kernel, _ in results if kernel is not None], diagnostics)
    return tuple(kernel for kernel, _ in results if kernel is not None)


# --------------------------------------------------------------------------- expansions


def _expansions(document: Document, model: SpecModel, diagnostics: Collector) -> Iterator[_Expansion]:
    defaults = _defaults(document, model, diagnostics)
    variants = model.variants or {BASE_VARIANT: {}}
    settings: dict[str | None, Mapping[str, Choice]] = {}
    for name, values in model.instantiations.items():
        settings[name] = _checked(document, model, name, values, diagnostics)
    for variant, numbers in variants.items():
        for setting in settings.items() or ((None, {}),):
            yield _expansion(document, model, (variant, numbers), setting, defaults)


def _expansion(
    document: Document,
    model: SpecModel,
    variant: tuple[str, Mapping[str, int]],
    instantiation: tuple[str | None, Mapping[str, Choice]],
    dtypes: Mapping[str, DType],
) -> _Expansion:
    values = instantiation[1]
    dims = {name: _integer(values.get(name, size)) for name, size in model.dims.items()}
    params = {name: values.get(name, param.default) for name, param in model.params.items()}
    integers = {name: value for name, value in params.items() if isinstance(value, int) and not isinstance(value, bool)}
    origins = {name: document.value_span(("variants", variant[0], name)) for name in variant[1]}
    if instantiation[0] is not None:
        origins |= {name: document.value_span(("instantiations", instantiation[0], name)) for name in values}
    statics = Statics(
        numbers={**dims, **integers, **variant[1]},
        params=params,
        choices={name: tuple(param.choices) for name, param in model.params.items()},
        dtypes={name: DTYPES[str(values[name])] if name in values else dtype for name, dtype in dtypes.items()},
        origins=origins,
    )
    return _Expansion(variant=variant[0], instantiation=instantiation[0], statics=statics, dims=dims)


def _integer(value: Choice) -> int:
    assert isinstance(value, int)
    return value


def _defaults(document: Document, model: SpecModel, diagnostics: Collector) -> dict[str, DType]:
    """The dtype parameters' values; dims and parameters' defaults are checked on the way."""
    sizes: dict[Loc, int] = {("dims", name): size for name, size in model.dims.items()}
    for variant, numbers in model.variants.items():
        sizes |= {("variants", variant, name): size for name, size in numbers.items()}
    for loc in (loc for loc, size in sizes.items() if size < 1):
        diagnostics.add(Code.BAD_EXTENT, document.value_span(loc), f"{loc[-1]} is {sizes[loc]}: want at least 1")
    for name, param in model.params.items():
        if not _is_among(param.default, param.choices):
            span = document.value_span(("params", name, "default"))
            diagnostics.add(Code.NOT_A_CHOICE, span, f"the default of `{name}` is not among its choices")
    dtypes: dict[str, DType] = {}
    for name, word in model.dtypes.items():
        with diagnostics.collecting():
            dtypes[name] = _dtype(document, word, ("dtypes", name))
    return dtypes


def _is_among(value: Choice, choices: list[Choice]) -> bool:
    """``True`` is not 1 here."""
    return any(type(value) is type(choice) and value == choice for choice in choices)


def _dtype(document: Document, word: Choice, loc: Loc) -> DType:
    if isinstance(word, str) and word in DTYPES:
        return DTYPES[word]
    hint = did_you_mean(str(word), DTYPES)
    raise Reject(Code.UNKNOWN_DTYPE, document.value_span(loc), f"unknown dtype `{word}`", hint)


def _checked(
    document: Document, model: SpecModel, name: str, values: Mapping[str, Choice], diagnostics: Collector
) -> dict[str, Choice]:
    """An instantiation's settings; the wrong ones are recorded and left out."""
    good: dict[str, Choice] = {}
    for key, value in values.items():
        with diagnostics.collecting():
            _check_setting(document, model, ("instantiations", name, key), value)
            good[key] = value
    return good


def _check_setting(document: Document, model: SpecModel, loc: Loc, value: Choice) -> None:
    name, span = str(loc[-1]), document.value_span(loc)
    if name in model.params:
        choices = model.params[name].choices
        if not _is_among(value, choices):
            shown, hint = ", ".join(map(str, choices)), did_you_mean(str(value), map(str, choices))
            raise Reject(Code.NOT_A_CHOICE, span, f"`{value}` is not a choice of `{name}` ({shown})", hint)
    elif name in model.dims:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise Reject(Code.BAD_EXTENT, span, f"dim `{name}` is `{value}`: want a number, at least 1")
    elif name in model.dtypes:
        _dtype(document, value, loc)
    else:
        hint = did_you_mean(name, (*model.params, *model.dims, *model.dtypes))
        message = f"`{name}` is not a parameter, a dim or a dtype parameter"
        raise Reject(Code.UNKNOWN_OVERRIDE, document.key_span(loc), message, hint)


# --------------------------------------------------------------------------- kernels


@dataclass(frozen=True, slots=True)
class _File:
    document: Document
    model: SpecModel
    text: Text
    body: list[ast.stmt]
    digest: str

    def kernel(self, expansion: _Expansion) -> tuple[KernelSpec | None, list[Diagnostic]]:
        """One kernel and the mistakes found on the way; None when there are any."""
        diagnostics = Collector()
        reader = SectionReader(self.document, self.model, expansion.statics, diagnostics)
        try:
            kernel = self._kernel(reader, expansion)
        except Reject as reject:
            return None, [*diagnostics.found, reject.diagnostic]
        except Skip:
            return None, diagnostics.found
        return (None if diagnostics.found else kernel), diagnostics.found

    def _kernel(self, reader: SectionReader, expansion: _Expansion) -> KernelSpec:
        declarations = reader.declarations()
        body = resolve_static(self.body, expansion.statics, self.text)
        stmts = lower_program(body, self.text, declarations, reader.diagnostics)
        check_ownership(stmts, declarations, reader.diagnostics)
        schedule = read_schedule(reader, declarations.indices, _left_sides(self.body, declarations))
        return KernelSpec(
            name=self._name(expansion),
            family=self.model.family,
            program=self._program(expansion, declarations, stmts),
            schedule=schedule,
            spec_path=self.document.path,
            spec_digest=self.digest,
            targets=tuple(target for target in TARGETS if target in self.model.targets),
            about=self.model.about,
        )

    def _name(self, expansion: _Expansion) -> KernelName:
        """An instantiation that sets dims and dtypes alone is told by the signature."""
        dims = [f"{name.lower()}{size}" for name, size in expansion.dims.items()]
        dtypes = [dtype.value for dtype in expansion.statics.dtypes.values()]
        settings = self.model.instantiations.get(expansion.instantiation or "", {})
        is_named = any(name in self.model.params for name in settings)
        return KernelName(
            stage=self.model.stage,
            signature="_".join([*dims, *dtypes]),
            variant=expansion.variant,
            instantiation=expansion.instantiation if is_named else None,
        )

    def _program(self, expansion: _Expansion, declarations: Declarations, body: tuple[Stmt, ...]) -> Program:
        use = used_by(body)
        tensors = tuple(tensor for name, tensor in declarations.tensors.items() if name in use.tensors)
        return Program(
            stage=self.model.stage,
            dims=tuple(expansion.dims.items()),
            runtime_dims=_runtime_dims(declarations, use),
            tensors=tensors,
            scalars=tuple(scalar for name, scalar in declarations.scalars.items() if name in use.arguments),
            grid=tuple(declarations.grid.values()),
            indices=tuple(declarations.indices.values()),
            body=body,
            span=self.document.value_span(("stage",)),
            numbers=tuple(expansion.statics.numbers.items()),
            where=tuple(declarations.where.items()),
        )


def _runtime_dims(declarations: Declarations, use: ProgramUse) -> tuple[str, ...]:
    """The run-time dims of the used tensors, the grid and the program, in the order of the file."""
    sizes = [size for name, tensor in declarations.tensors.items() if name in use.tensors for size in tensor.shape]
    sizes += [axis.count for axis in declarations.grid.values()]
    sizes += sorted(name for name in declarations.runtime_dims if name in use.arguments)
    return tuple(dict.fromkeys(size for size in sizes if isinstance(size, str)))


def _left_sides(body: list[ast.stmt], declarations: Declarations) -> Statements:
    names = assigned_names(body)
    looped = assigned_names([part for node in body for part in ast.walk(node) if isinstance(part, ast.For)])
    return Statements(
        tiles=tuple(name for name in names if name not in declarations.tensors),
        looped=looped,
        stores=tuple(name for name in names if name in declarations.tensors),
    )


# --------------------------------------------------------------------------- over all expansions


def _merged(results: list[tuple[_Expansion, list[Diagnostic]]]) -> list[Diagnostic]:
    """Each mistake once; with the first expansion that has it, when some have it not."""
    merged: dict[tuple[str, Span, str], tuple[Diagnostic, tuple[str, ...]]] = {}
    counts: dict[tuple[str, Span, str], int] = {}
    for expansion, found in results:
        for key in dict.fromkeys((item.code, item.span, item.message) for item in found):
            counts[key] = counts.get(key, 0) + 1
        for item in found:
            merged.setdefault((item.code, item.span, item.message), (item, expansion.chain))
    return [
        item if counts[key] == len(results) and len(results) > 1 else replace(item, chain=chain)
        for key, (item, chain) in merged.items()
    ]


def _check_unused(document: Document, model: SpecModel, kernels: list[KernelSpec], diagnostics: Collector) -> None:
    used = {tensor.name for kernel in kernels for tensor in kernel.program.tensors}
    used |= {scalar.name for kernel in kernels for scalar in kernel.program.scalars}
    declared = [("tensors", name) for name in model.tensors] + [("scalars", name) for name in model.scalars]
    for loc in (loc for loc in declared if loc[-1] not in used):
        diagnostics.add(Code.UNUSED_ARGUMENT, document.key_span(loc), f"`{loc[-1]}` is declared and not used")
