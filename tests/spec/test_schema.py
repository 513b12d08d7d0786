"""The JSON schema for editors accepts the specs that the front end accepts."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from loomgen.spec import json_schema
from loomgen.spec.source import read_document
from tests.spec.support import BASE

ROOT = Path(__file__).parents[2]
SPECS = sorted([*(ROOT / "specs").glob("*/*.yaml"), *(Path(__file__).parent / "stages").glob("*.yaml")])


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_specs_follow_the_schema(path: Path) -> None:
    document = read_document(path.name, path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(json_schema()).validate(document.data)


@pytest.mark.parametrize(
    ("old", "new"),
    [("access: in,", "access: both,"), ("family: gdn\n", ""), ("rows: e", "row: e"), ("{C: 16", "{C: x")],
)
def test_the_schema_refuses_what_the_model_refuses(old: str, new: str) -> None:
    document = read_document("x.yaml", BASE.replace(old, new, 1))
    assert not jsonschema.Draft202012Validator(json_schema()).is_valid(document.data)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
