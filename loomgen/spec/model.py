"""The YAML file of a stage as a pydantic model: which keys there are and what kind of value each takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from loomgen.errors import Span
from loomgen.spec.codes import Code
from loomgen.spec.report import Collector, closest, did_you_mean
from loomgen.spec.source import Document, Loc

Target = Literal["sm_90a", "sm_100a", "sm_103a"]
TARGETS: tuple[Target, ...] = get_args(Target)

Number = Annotated[int | str, Field(description="A number, or an expression of static names such as `VB // 16 * KS`.")]
Choice = str | int | bool


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ParamModel(_Section):
    """A static parameter: one of ``choices`` is fixed when the kernel is generated."""

    choices: list[Choice] = Field(min_length=1)
    default: Choice


class TensorModel(_Section):
    """A tensor argument; dimensions are numbers, static expressions or run-time dims (upper case names)."""

    access: Literal["in", "out", "inout"]
    dtype: str = Field(description="A dtype or a dtype parameter.")
    shape: list[int | str]
    strides: Literal["contiguous", "rows", "free"] = "contiguous"
    optional: bool = Field(default=False, description="May be absent; the program asks with `given(x)`.")
    distinct: bool = Field(default=False, description="An index tensor whose elements are all different.")
    scatter: bool = Field(default=False, description="An output whose places are computed: who owns one is not proved.")
    about: str = Field(default="", description="What it holds, in a few words; for readers.")


class SplitModel(_Section):
    """An index cut into ``parts``; each of ``across`` groups of warps sums its share of them."""

    parts: Number
    across: Number = 1


class RoleModel(_Section):
    """Warps that run some of the statements beside the other roles' warps; one role runs the ``rest``."""

    warps: Number
    registers: Number | None = None
    runs: list[str] | Literal["rest"]


class ScheduleModel(_Section):
    """How the statements are carried out; what is left out is inferred."""

    warps: Number | None = None
    rows: Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] = []
    split: dict[str, SplitModel] = {}
    rings: dict[str, Number] = {}
    place: dict[str, Literal["registers", "shared", "direct"]] = {}
    min_blocks: Number | None = None
    vector: Number | None = None
    roles: dict[str, RoleModel] = {}
    atom: Literal["mma", "wgmma"] = "mma"
    tma: list[str] = Field(default=[], description="Copies and stores that the hardware makes by boxes of a tensor.")


class SpecModel(_Section):
    """One stage: its arguments, its arithmetic, its schedule and what it expands into."""

    stage: str
    family: str
    about: str = ""
    dims: dict[str, int] = Field(description="Static axes; the kernel name lists them in this order.")
    params: dict[str, ParamModel] = {}
    dtypes: dict[str, str] = Field(default={}, description="Dtype parameters, callable in the program: TX(x).")
    tensors: dict[str, TensorModel]
    scalars: dict[str, Literal["f32", "i32", "i64", "bool"]] = {}
    index: dict[str, Number] = Field(default={}, description="Index letters and their extents.")
    grid: dict[str, Number] = Field(description="Grid coordinates, outermost first.")
    where: dict[str, str] = Field(default={}, description="Names for integer expressions of grid coordinates.")
    program: str
    schedule: ScheduleModel = ScheduleModel()
    variants: dict[str, dict[str, int]] = {}
    instantiations: dict[str, dict[str, Choice]] = {}
    targets: list[Target] = Field(default=list(TARGETS), min_length=1)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a spec file, for editors."""
    schema = SpecModel.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "loomgen stage spec"}


def validate(document: Document, diagnostics: Collector) -> tuple[Document, SpecModel] | None:
    """The document and its model, with every mistake of its form recorded; None where nothing can be made of it.

    A mistyped key is taken for the missing one that it resembles, any other unknown key and what is wrong in the
    schedule are left out: the mistakes of the rest are then found, too.
    """
    for loc, key in _mistyped(document, _errors(document)).items():
        _report_unknown(document, loc, diagnostics)
        document = document.with_key(loc, key)
    seen: set[Span] = set()
    for item in _errors(document):
        _report(document, item, diagnostics, seen)
        document = document.without(_spare(item))
    return None if _errors(document) else (document, SpecModel.model_validate(document.data))


def _errors(document: Document) -> list[Any]:
    try:
        SpecModel.model_validate(document.data)
    except ValidationError as error:
        return list(error.errors())
    return []


def _mistyped(document: Document, errors: list[Any]) -> dict[Loc, str]:
    """Unknown keys, each with the key of its section that is not there and that it must stand for."""
    found: dict[Loc, str] = {}
    for loc in (item["loc"] for item in errors if item["type"] == "extra_forbidden"):
        close = closest(str(loc[-1]), _known_keys(loc))
        if close is None or (*loc[:-1], close) in document.keys:
            continue
        if not any(other[:-1] == loc[:-1] and key == close for other, key in found.items()):
            found[loc] = close
    return found


def _spare(item: Any) -> Loc:
    """What is left out so that the rest can be checked: an unknown key, an entry of the schedule."""
    loc: Loc = item["loc"]
    if item["type"] == "extra_forbidden":
        return loc
    return loc[:2] if loc[0] == "schedule" else ()


def _report(document: Document, item: Any, diagnostics: Collector, seen: set[Span]) -> None:
    loc: Loc = item["loc"]
    if item["type"] == "extra_forbidden":
        _report_unknown(document, loc, diagnostics)
        return
    if item["type"] == "missing":
        diagnostics.add(Code.MISSING_KEY, document.key_span(loc[:-1]), f"key `{loc[-1]}` is missing{_inside(loc)}")
        return
    span = document.value_span(loc)
    if span not in seen:
        seen.add(span)
        message = str(item["msg"])
        diagnostics.add(Code.BAD_VALUE, span, message[0].lower() + message[1:])


def _report_unknown(document: Document, loc: Loc, diagnostics: Collector) -> None:
    hint = did_you_mean(str(loc[-1]), _known_keys(loc))
    diagnostics.add(Code.UNKNOWN_KEY, document.key_span(loc), f"unknown key `{loc[-1]}`{_inside(loc)}", hint)


def _inside(loc: Loc) -> str:
    where = ".".join(str(part) for part in loc[:-1])
    return f" in `{where}`" if where else ""


def _known_keys(loc: Loc) -> tuple[str, ...]:
    sections: dict[str, type[BaseModel]] = {"params": ParamModel, "tensors": TensorModel, "schedule": ScheduleModel}
    model = SpecModel if len(loc) == 1 else sections[str(loc[0])]
    if loc[0] == "schedule" and len(loc) > 2:
        model = SplitModel
    return tuple(model.model_fields)
