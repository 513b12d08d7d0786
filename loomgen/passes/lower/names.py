"""Names in device code: the marks of its own, C types."""

from __future__ import annotations

from dataclasses import dataclass

from loomgen.ir.device import CExpr, add, mul, name, num
from loomgen.ir.plan import SharedBuffer, SharedRef
from loomgen.ir.types import DType
from loomgen.passes.lower.statics import template_argument

MARK = "$"
"""Names of the generated code's own have it, and no name of a stage: ``$slab``, ``kc$next``."""

THREAD, LANE, WARP, SLAB, PART = (name(text) for text in ("$thread", "$lane", "$warp", "$slab", "$part"))
MATRIX_ROW = name("$matrix_row")
"""This thread's row of an 8x8 matrix."""
ROW, COL = name("$row"), name("$col")
"""This thread's first row of a fragment, and its first column inside an 8-column tile."""
LANE_ROW, LANE_COL = name("$lane_row"), name("$lane_col")
"""The 16-byte row of a 16x16 block that a lane addresses, blocks of matrices in column order."""
PAIR_ROW, PAIR_COL = name("$pair_row"), name("$pair_col")
"""The same with the two middle 8x8 matrices swapped."""

_C_TYPES = {
    DType.F32: "float",
    DType.TF32: "float",
    DType.BF16: "bf16",
    DType.F16: "f16",
    DType.I32: "int32_t",
    DType.I64: "int64_t",
    DType.BOOL: "bool",
}


def c_type(dtype: DType) -> str:
    return _C_TYPES[dtype]


def tile_type(buffer: SharedBuffer, variable: str) -> str:
    """``SharedTile<bf16, C, K, K, 3>``; a row that is padded is written as ``x_pitch``; ``PanelTile<bf16, MB, OB>`` for
    several panels.
    """
    rows, cols = (template_argument(*size) for size in zip(buffer.symbols, (buffer.rows, buffer.cols), strict=True))
    if buffer.panels > 1:
        return f"PanelTile<{c_type(buffer.dtype)}, {rows}, {cols}>"
    pitch = cols if buffer.pitch == buffer.cols else pitch_name(variable)
    return f"SharedTile<{c_type(buffer.dtype)}, {rows}, {cols}, {pitch}, {buffer.swizzle}>"


def pitch_name(variable: str) -> str:
    """The constant that holds the pitch of a padded tile."""
    return f"{variable}$pitch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Names of arrays and tiles: the plan's, with a suffix where an argument or a letter has that name."""

    taken: frozenset[str]

    def local(self, text: str) -> str:
        return f"{text}{MARK}tile" if text in self.taken else text

    def tile(self, ref: SharedRef) -> str:
        """The variable of a tile in shared memory: of the current slot, or of the one that is being filled."""
        local = self.local(ref.buffer.name)
        return f"{local}$next" if ref.ahead else local

    def ring(self, text: str) -> str:
        """The variable of all slots of a ring."""
        return f"{text}$ring"


def slab_row(row: CExpr) -> CExpr:
    """Row ``row`` of the warp's slab."""
    return add(mul(num(16), SLAB), row)
