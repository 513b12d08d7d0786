"""What the device headers declare."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

_DECLARED = re.compile(r"LOOM_DEVICE\s[\w<>:*&\s]*?[\s*&](operator\+|\w+)\(")


def declared_primitives(folder: Path) -> set[str]:
    """Every function that the headers directly in ``folder`` declare with LOOM_DEVICE: by its name, followed by its
    parameter types where the name has several meanings."""
    signatures: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for path in sorted(folder.glob("*.cuh")):
        text = _without_comments(path.read_text())
        for match in _DECLARED.finditer(text):
            signatures[match[1]].add(_parameter_types(text[match.end() :]))
    return {
        f"{name}({', '.join(types)})" if len(meanings) > 1 else name
        for name, meanings in signatures.items()
        for types in meanings
    }


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


def _parameter_types(text: str) -> tuple[str, ...]:
    """The types of the parameters up to the parenthesis that closes their list."""
    parameters, depth, current = [], 0, ""
    for character in text:
        if character == ")" and depth == 0:
            break
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parameters.append(current)
            current = ""
        else:
            current += character
    return tuple(_type_of(parameter) for parameter in [*parameters, current] if parameter.strip())


def _type_of(parameter: str) -> str:
    """``const void* source`` as ``const void*``."""
    plain = parameter.replace("LOOM_HERE", "").strip()
    return re.sub(r"\s*\b\w+(?=\)|$)", "", plain, count=1)
