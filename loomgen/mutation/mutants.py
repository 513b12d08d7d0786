"""The mutants of a source: one line each, found by its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    """What is done to a line."""

    DELETED = "deleted"  # a barrier, arrival, wait, fence or commit that does nothing
    WEAKENED = "weakened"  # a barrier of the warp instead of the block; a wait for one group less
    LANES = "lanes"  # a lane's place in a fragment or matrix, rotated by one lane
    RING = "ring"  # the next slot of a ring
    ORDER = "order"  # a reversed loop's chunks from the first on, where it or its copies go
    PHASE = "phase"  # the other phase of a barrier
    SWIZZLE = "swizzle"  # one access of a swizzled tile under another swizzle


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """``line`` counts from 1; ``text`` is the line as it stands, ``replacement`` what it becomes (empty: DELETED)."""

    kind: Kind
    line: int
    text: str
    replacement: str

    def applied_to(self, source: str) -> str:
        """The source with the line replaced; all other lines keep their numbers."""
        lines = source.split("\n")
        lines[self.line - 1] = self.replacement
        return "\n".join(lines)


_SYNC = re.compile(
    r"\b(?:sync_block|sync_warp|sync_named|cp_async_wait<\d+>|cp_async_commit"
    r"|mbarrier_init|mbarrier_init_fence|mbarrier_arrive|mbarrier_expect_bytes|mbarrier_wait|fence_proxy_async"
    r"|tma_store_commit|tma_store_wait<\d+>|wgmma_fence|wgmma_commit|wgmma_wait<\d+>)\("
)
_WAIT = re.compile(r"\b(cp_async_wait|tma_store_wait|wgmma_wait)<(\d+)>")
_LANE_MAP = re.compile(r"^\s*const int (?:matrix_row|col|lane_row|lane_col|pair_row|pair_col) = ")
_SLOT = re.compile(r"\.at_slot\((\w+) % (\d+)\)")
_RING_SLOT = re.compile(r"^(\s*const int \w+_slot = )(\w+) % (\d+);")
_FROM_THE_END = re.compile(r"^(\s*const int \w+_chunk = )\w+_count - 1(?: - (\w+))?;")
_PHASE = re.compile(r"(mbarrier_wait\(.*, )(1 - )?(\w+_phase\))")
_TILE = re.compile(r"const SharedTile<(\w+, \w+, \w+, \w+), (\d)> (\w+)\{")
_RING_TILE = re.compile(r"const auto (\w+) = (\w+)\.at_slot\(")


def mutants(source: str) -> tuple[Mutant, ...]:
    """Every mutant of a kernel's source, in the order of lines."""
    code = [(number, text) for number, text in enumerate(source.split("\n"), 1) if not text.lstrip().startswith("//")]
    found = [mutant for number, text in code for mutant in _of_line(number, text)]
    found.extend(_under_other_swizzles(code))
    return tuple(sorted(found, key=lambda mutant: mutant.line))


def _of_line(number: int, text: str) -> Iterator[Mutant]:
    if _SYNC.search(text):
        yield Mutant(kind=Kind.DELETED, line=number, text=text, replacement="")
    if (wait := _WAIT.search(text)) is not None:
        fewer = f"{wait[1]}<{int(wait[2]) + 1}>"
        yield Mutant(kind=Kind.WEAKENED, line=number, text=text, replacement=_WAIT.sub(fewer, text))
    if "sync_block(" in text:
        narrower = text.replace("sync_block(", "sync_warp(")
        yield Mutant(kind=Kind.WEAKENED, line=number, text=text, replacement=narrower)
    if _LANE_MAP.match(text):
        code, slashes, remark = text.partition("//")
        rotated = re.sub(r"\blane\b", "((lane + 1) % 32)", code) + slashes + remark
        yield Mutant(kind=Kind.LANES, line=number, text=text, replacement=rotated)
    if _SLOT.search(text):
        shifted = _SLOT.sub(r".at_slot((\1 + 1) % \2)", text)
        yield Mutant(kind=Kind.RING, line=number, text=text, replacement=shifted)
    if _RING_SLOT.match(text):
        shifted = _RING_SLOT.sub(r"\1(\2 + 1) % \3;", text)
        yield Mutant(kind=Kind.RING, line=number, text=text, replacement=shifted)
    if (place := _FROM_THE_END.match(text)) is not None:
        from_the_start = f"{place[1]}{place[2] or 0};"
        yield Mutant(kind=Kind.ORDER, line=number, text=text, replacement=from_the_start)
    if (phase := _PHASE.search(text)) is not None:
        other = _PHASE.sub(r"\1\3" if phase[2] else r"\g<1>1 - \3", text)
        yield Mutant(kind=Kind.PHASE, line=number, text=text, replacement=other)


def _under_other_swizzles(code: list[tuple[int, str]]) -> Iterator[Mutant]:
    """For each swizzled tile its last access, under a swizzle of one bit less."""
    types = {match[3]: (match[1], int(match[2])) for _, text in code if (match := _TILE.search(text))}
    slots = {match[1]: match[2] for _, text in code if (match := _RING_TILE.search(text))}
    types.update({tile: types[ring] for tile, ring in slots.items() if ring in types})
    for tile, (shape, swizzle) in types.items():
        access = re.compile(rf"\b{tile}\.at\(")
        last = next(((number, text) for number, text in reversed(code) if access.search(text)), None)
        if swizzle == 0 or last is None:
            continue
        number, text = last
        other = access.sub(f"SharedTile<{shape}, {swizzle - 1}>{{{tile}.base}}.at(", text)
        yield Mutant(kind=Kind.SWIZZLE, line=number, text=text, replacement=other)
