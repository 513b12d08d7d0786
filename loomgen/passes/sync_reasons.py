"""What a wait or a barrier is for, in words: the pairs of accesses that it orders."""

from __future__ import annotations

from collections.abc import Iterable

Side = tuple[str, str]
"""``("write", "kc")``."""
Pair = tuple[Side, Side]
"""An earlier and a later access."""

_MAX_NAMES = 5


def reason(pairs: Iterable[Pair]) -> str:
    """``write wc, uc -> read them; read kc -> write kc_next``: pairs of one kind together, the first few by name."""
    groups: dict[tuple[str, str, bool], list[tuple[str, str]]] = {}
    for (before, earlier), (after, later) in dict.fromkeys(_telling(list(pairs))):
        groups.setdefault((before, after, earlier == later), []).append((earlier, later))
    by_use = sorted(groups.items(), key=lambda group: group[0][0] != "write")
    return "; ".join(_group(before, after, names) for (before, after, _), names in by_use)


def _telling(pairs: list[Pair]) -> list[Pair]:
    """Without what follows from the rest. Where a write comes before the write or the read of other data in its place,
    the data that it wrote was read in between.
    """
    telling = [(a, b) for a, b in pairs if a[0] == "read" or (b[0] == "read" and a[1] == b[1])]
    return telling or pairs


def _group(before: str, after: str, names: list[tuple[str, str]]) -> str:
    earlier, later = (list(dict.fromkeys(pair[side] for pair in names)) for side in (0, 1))
    return f"{before} {_listed(earlier)} -> {after} {'them' if earlier == later and earlier[1:] else _listed(later)}"


def _listed(names: list[str]) -> str:
    rest = len(names) - _MAX_NAMES
    return ", ".join(names) if rest <= 0 else f"{', '.join(names[:_MAX_NAMES])} and {rest} more"
