"""What device code calls the windows in scope: their first element, length and ordinal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loomgen.errors import InternalError
from loomgen.ir.device import CExpr, add, mul, name, num
from loomgen.ir.tile import Window, WindowKind
from loomgen.passes.lower.statics import static


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowNames:
    """Device expressions of a window; ``parent_len`` and ``pos`` place it in its parent (a chunk of the grid has
    none).
    """

    start: CExpr
    length: CExpr
    ordinal: CExpr
    pos: CExpr
    parent_len: CExpr | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowScope:
    """The windows that a statement may use, by their spec names."""

    known: tuple[tuple[str, WindowNames], ...] = ()

    def with_window(self, window: str, names: WindowNames) -> WindowScope:
        return replace(self, known=(*(pair for pair in self.known if pair[0] != window), (window, names)))

    def find(self, window: str) -> WindowNames | None:
        return dict(self.known).get(window)

    def __getitem__(self, window: Window) -> WindowNames:
        found = self.find(window.name)
        if found is None:
            raise InternalError("lower", f"window {window.name} is not in scope")
        return found


def grid_window(window: Window) -> WindowNames:
    """A window bound by the grid: variables ``<name>``, ``<name>_start``, ``<name>_len``; blocks are arithmetic."""
    ordinal = name(window.name)
    if window.kind is WindowKind.BLOCK:
        length = static(window.symbol, window.extent)
        start = mul(length, ordinal)
        return WindowNames(start=start, length=length, ordinal=ordinal, pos=start, parent_len=None)
    start, filled = name(f"{window.name}$start"), name(f"{window.name}$len")
    return WindowNames(start=start, length=filled, ordinal=ordinal, pos=num(0), parent_len=None)


def loop_window(window: Window, parent: WindowNames, prefix: str, place: CExpr) -> WindowNames:
    """Chunk ``place`` of a sequence, counted from 0: variables ``<prefix>_start``, ``<prefix>_len``; the ordinal counts
    from the sequence's first chunk, ``<window>_first``.
    """
    return WindowNames(
        start=name(f"{prefix}$start"),
        length=name(f"{prefix}$len"),
        ordinal=add(name(f"{window.name}$first"), place),
        pos=mul(static(window.symbol, window.extent), place),
        parent_len=parent.length,
    )
