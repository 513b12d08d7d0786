"""What one thread calls an element of a tile, by where the tile lives."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import assert_never

from loomgen.errors import InternalError
from loomgen.ir.device import CExpr, Element, Infix, Name, add, call, num
from loomgen.ir.plan import Home, RegisterTile, RowTile, ScalarHome, SharedRef, StripTile
from loomgen.ir.tile import TileRead
from loomgen.ir.types import DType, Index
from loomgen.passes.lower.layouts import Walk, element
from loomgen.passes.lower.names import Naming, c_type
from loomgen.passes.lower.statics import extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Device expressions of the index letters at one element, and where in a register layout it lies, if in one.

    ``row_slot`` is the thread's row in the layout, ``walk`` and ``second`` its element of a column pair.
    """

    letters: dict[Index, CExpr]
    row_slot: CExpr | None = None
    walk: Walk | None = None
    second: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementNames:
    """Implements `expressions.Elements` at one position."""

    homes: dict[str, Home]
    position: Position
    naming: Naming

    def index(self, index: Index) -> CExpr:
        found = self.position.letters.get(index)
        if found is None:
            raise InternalError("lower", f"index {index.name} is not bound here")
        return found

    def element(self, read: TileRead) -> CExpr:
        home = self.homes[read.value.name]
        match home:
            case ScalarHome():
                scalar = Name(text=self.naming.local(home.name))
                return call("to_f32", scalar) if home.dtype.is_half else scalar
            case RegisterTile() | StripTile():
                if self.position.walk is None:
                    raise InternalError("lower", f"{home.name} is read outside its layout")
                return element(self.position.walk, self.naming.local(home.name), home.dtype, self.position.second)
            case RowTile():
                if self.position.row_slot is None:
                    raise InternalError("lower", f"{home.name} is read outside its rows")
                number = Element(array=self.naming.local(home.name), subscripts=(self.position.row_slot,))
                return call("to_f32", number) if home.dtype.is_half else number
            case SharedRef():
                return self._shared(read, home)
            case _:
                assert_never(home)

    def _shared(self, read: TileRead, home: SharedRef) -> CExpr:
        subs = dict(zip(read.value.indices, read.subs, strict=True))
        coords = []
        for axis in home.axes:
            sub = subs[axis]
            if sub.index is not None:
                coords.append(add(self.index(sub.index), num(sub.offset)))
            elif sub.offset and sub.offset == axis.extent - 1:
                coords.append(Infix(op="-", a=extent(axis), b=num(1)))
            else:
                coords.append(num(sub.offset))
        row = coords[0] if len(coords) == 2 else num(0)
        load = call(f"ld_shared<{c_type(home.buffer.dtype)}>", call(f"{self.naming.tile(home)}.at", row, coords[-1]))
        if read.dtype is DType.BOOL:
            return Infix(op="!=", a=load, b=num(0))
        return call("to_f32", load) if home.buffer.dtype.is_half else load
