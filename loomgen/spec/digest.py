"""The digest of a spec: what it says, whatever its comments, spacing and the order of keys that mean nothing."""

from __future__ import annotations

import ast
import hashlib
import json
from typing import Any

from loomgen.spec.model import SpecModel
from loomgen.spec.syntax import canonical

_ORDERED = ("dims", "dtypes", "tensors", "scalars", "index", "grid", "where")
"""Sections whose order matters: for the kernel's name, its arguments or its grid."""
_EXPRESSIONS = frozenset({"tensors", "index", "grid", "where", "schedule"})


def spec_digest(model: SpecModel, program: list[ast.stmt]) -> str:
    """SHA-256, in hexadecimal, of the canonical content; ``about`` is no part of it, nor a tensor's."""
    left_out: Any = {"about": True, "program": True, "tensors": {"__all__": {"about"}}}
    content: dict[str, Any] = model.model_dump(exclude_defaults=True, exclude=left_out)
    for section in _EXPRESSIONS & content.keys():
        content[section] = _squeezed(content[section])
    for section in (section for section in _ORDERED if section in content):
        content[section] = list(content[section].items())
    content["targets"] = sorted(model.targets)
    content["program"] = canonical(program)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _squeezed(value: Any) -> Any:
    """The same data with the spaces of its expressions removed."""
    match value:
        case str():
            return "".join(value.split())
        case dict():
            return {key: _squeezed(item) for key, item in value.items()}
        case list():
            return [_squeezed(item) for item in value]
        case _:
            return value
