"""A fuzz case, and its text as a file: the spec under a line that says what it runs on."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEAD = re.compile(r"# batch: lengths ([0-9 ]+); heads (\d+)/(\d+); seed (\d+)\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``text`` is the spec; ``lengths`` the tokens of each sequence; ``heads`` key and value heads; ``seed`` chooses
    the tensors' elements, which optional ones are given, and how they lie in memory.
    """

    text: str
    lengths: tuple[int, ...]
    heads: tuple[int, int]
    seed: int


def to_file(case: Case) -> str:
    """A spec file whose first line, a comment, holds the batch."""
    lengths = " ".join(map(str, case.lengths))
    return f"# batch: lengths {lengths}; heads {case.heads[0]}/{case.heads[1]}; seed {case.seed}\n{case.text}"


def from_file(text: str) -> Case:
    """The case of :func:`to_file`. Raises ValueError where the first line does not tell the batch."""
    found = _HEAD.match(text)
    if found is None:
        raise ValueError("want a first line such as `# batch: lengths 0 65; heads 1/2; seed 7`")
    lengths, key_heads, value_heads, seed = found.groups()
    return Case(
        text=text[found.end() :],
        lengths=tuple(map(int, lengths.split())),
        heads=(int(key_heads), int(value_heads)),
        seed=int(seed),
    )
