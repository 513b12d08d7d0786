"""The YAML file of a stage as a pydantic model: which keys there are and what kind of value each takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from loomgen.errors import Span
from loomgen.spec.codes import Code
from loomgen.spec.report import Collector, did_you_mean
from loomgen.spec.source import Document

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


class SplitModel(_Section):
    """An index cut into ``parts``; each of ``across`` groups of warps sums its share of them."""

    parts: Number
    across: Number = 1


class ScheduleModel(_Section):
    """How the statements are carried out; what is left out is inferred."""

    warps: Number | None = None
    rows: Annotated[list[str], BeforeValidator(_as_list, json_schema_input_type=str | list[str])] = []
    split: dict[str, SplitModel] = {}
    rings: dict[str, Number] = {}
    place: dict[str, Literal["registers", "shared", "direct"]] = {}
    min_blocks: Number | None = None
    vector: Number | None = None


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


def validate(document: Document, diagnostics: Collector) -> SpecModel | None:
    """The document as a model, or None with every mistake of its form recorded."""
    try:
        return SpecModel.model_validate(document.data)
    except ValidationError as error:
        seen: set[Span] = set()
        for item in error.errors():
            _report(document, item, diagnostics, seen)
        return None


def _report(document: Document, item: Any, diagnostics: Collector, seen: set[Span]) -> None:
    loc: tuple[str | int, ...] = item["loc"]
    where = ".".join(str(part) for part in loc[:-1])
    inside = f" in `{where}`" if where else ""
    if item["type"] == "extra_forbidden":
        word = str(loc[-1])
        hint = did_you_mean(word, _known_keys(loc))
        diagnostics.add(Code.UNKNOWN_KEY, document.key_span(loc), f"unknown key `{word}`{inside}", hint)
        return
    if item["type"] == "missing":
        diagnostics.add(Code.MISSING_KEY, document.key_span(loc[:-1]), f"key `{loc[-1]}` is missing{inside}")
        return
    span = document.value_span(loc)
    if span not in seen:
        seen.add(span)
        message = str(item["msg"])
        diagnostics.add(Code.BAD_VALUE, span, message[0].lower() + message[1:])


def _known_keys(loc: tuple[str | int, ...]) -> tuple[str, ...]:
    sections: dict[str, type[BaseModel]] = {"params": ParamModel, "tensors": TensorModel, "schedule": ScheduleModel}
    model = SpecModel if len(loc) == 1 else sections[str(loc[0])]
    if loc[0] == "schedule" and len(loc) > 2:
        model = SplitModel
    return tuple(model.model_fields)
