"""Registries: canonical bytes, the round trip, and what a reader refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from loomgen.registry import (
    Registry,
    RegistryError,
    canonical_json,
    load,
    parse_registry,
    published_schema,
    registry_schema,
)

KERNEL: dict[str, Any] = {
    "name": "copy__c64_f32__base",
    "stage": "copy",
    "signature": "c64_f32",
    "variant": "base",
    "instantiation": None,
    "family": "gdn",
    "symbol": "copy__c64_f32__base",
    "source": {"path": "generated/csrc/sm_90a/gdn/copy__c64_f32__base.cu", "sha256": "0" * 64},
    "spec": {"path": "specs/gdn/copy.yaml", "digest": "1" * 64},
    "arguments": [
        {
            "name": "x",
            "kind": "tensor",
            "dtype": "f32",
            "shape": ["T", 4],
            "access": "in",
            "optional": False,
            "source": None,
        }
    ],
    "launch": {"threads": 128, "min_blocks": 2, "grid": ["HV", 4], "dynamic_shared_bytes": 1024},
    "scan": {"step": 64, "blocks": {"vb": 32}, "parts": {"d": 2}},
    "constraints": {"dims": {"C": 64}, "multiples": [{"dim": "HV", "of": "H"}]},
}


def document(**changes: Any) -> dict[str, Any]:
    return {"schema_version": "1.0", "arch": "sm_90a", "kernels": [KERNEL], **changes}


def text(**changes: Any) -> str:
    return json.dumps(document(**changes))


def test_round_trip_is_exact() -> None:
    registry = parse_registry(text(), "test")
    assert registry.model_dump(mode="json") == document()
    assert parse_registry(canonical_json(registry.model_dump(mode="json")).decode(), "test") == registry


def test_canonical_json_is_sorted_and_ends_with_a_newline() -> None:
    assert canonical_json({"b": [1, 2], "a": "\u00e9"}) == b'{\n  "a": "\\u00e9",\n  "b": [\n    1,\n    2\n  ]\n}\n'


def test_kernels_are_found_by_name() -> None:
    registry = parse_registry(text(), "test")
    assert registry.kernel("copy__c64_f32__base").launch.threads == 128
    with pytest.raises(KeyError):
        registry.kernel("other")


def test_a_later_minor_version_may_add_fields() -> None:
    registry = parse_registry(text(schema_version="1.7", note="new"), "test")
    assert registry.kernels[0].name == "copy__c64_f32__base"


@pytest.mark.parametrize("version", ["2.0", "0.9"])
def test_another_major_version_is_refused_whatever_it_holds(version: str) -> None:
    with pytest.raises(RegistryError, match=rf"^r\.json: schema_version is '{version}'; this reader knows 1\.x"):
        parse_registry(json.dumps({"schema_version": version, "kernels": "something else"}), "r.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"r\.json:1:2: not JSON"),
        ("[]", r"r\.json: not a registry: it has no schema_version"),
        (text(kernels=[{**KERNEL, "launch": {**KERNEL["launch"], "threads": "128"}}]), r"kernels\.0\.launch\.threads"),
        (text(kernels=[{**KERNEL, "source": {"path": "a.cu", "sha256": "xyz"}}]), r"kernels\.0\.source\.sha256"),
        (json.dumps({"schema_version": "1.0", "arch": "sm_90a"}), r"r\.json: kernels: Field required"),
    ],
)
def test_a_damaged_registry_is_refused_with_the_place(content: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        parse_registry(content, "r.json")


def test_load_reads_the_file_of_the_architecture(tmp_path: Path) -> None:
    path = tmp_path / "registry" / "registry_sm_90a.json"
    path.parent.mkdir()
    path.write_text(text())
    assert isinstance(load("sm_90a", tmp_path), Registry)


def test_load_says_how_to_make_a_missing_registry(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="no such registry; `loomgen render --arch sm_90a` writes it"):
        load("sm_90a", tmp_path)


def test_load_refuses_what_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "registry_sm_90a.json").write_bytes(b'{"schema_version": "\xff"}')
    with pytest.raises(RegistryError, match=r"registry_sm_90a\.json: not UTF-8: invalid start byte"):
        load("sm_90a", tmp_path)


def test_load_refuses_a_registry_of_another_architecture(tmp_path: Path) -> None:
    path = tmp_path / "registry" / "registry_sm_100a.json"
    path.parent.mkdir()
    path.write_text(text())
    with pytest.raises(RegistryError, match="arch is 'sm_90a', expected 'sm_100a'"):
        load("sm_100a", tmp_path)


def test_published_schema_is_that_of_the_model() -> None:
    """Mend with `python tools/update_published.py`."""
    assert published_schema() == canonical_json(registry_schema())


def test_published_schema_accepts_and_refuses_what_the_reader_does() -> None:
    schema = json.loads(published_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document(), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document(kernels=[{**KERNEL, "launch": {}}]), schema)
