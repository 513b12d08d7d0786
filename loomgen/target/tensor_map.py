"""How the copy hardware is told of a matrix: by a tensor map, which the CUDA driver makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAP_BYTES = 128

_TYPES = {
    "bf16": ("BFLOAT16", 2),
    "f16": ("FLOAT16", 2),
    "f32": ("FLOAT32", 4),
    "u16": ("UINT16", 2),
    "u32": ("UINT32", 4),
}
"""The driver's name of a dtype, and the bytes of an element."""

_SWIZZLES = ("NONE", "32B", "64B", "128B")
"""The modes by the number of bits that they permute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixBox:
    """A contiguous matrix of ``dtype`` at a device address, and the boxes that are copied of it."""

    address: int
    dtype: str
    rows: int
    cols: int
    box_rows: int
    box_cols: int
    swizzle: int

    def __str__(self) -> str:
        return f"{self.rows} x {self.cols} elements in boxes of {self.box_rows} x {self.box_cols}"


def tiled_arguments(cuda: Any, box: MatrixBox) -> tuple[Any, ...]:
    """What ``cuTensorMapEncodeTiled`` of ``cuda``, the module ``cuda.bindings.driver``, is called with for ``box``.

    Columns come before rows; what lies outside of the matrix reads as zeros.
    """
    name, element_bytes = _TYPES[box.dtype]
    return (
        getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{name}"),
        2,
        box.address,
        [cuda.cuuint64_t(box.cols), cuda.cuuint64_t(box.rows)],
        [cuda.cuuint64_t(box.cols * element_bytes)],
        [cuda.cuuint32_t(box.box_cols), cuda.cuuint32_t(box.box_rows)],
        [cuda.cuuint32_t(1), cuda.cuuint32_t(1)],
        cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(cuda.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[box.swizzle]}"),
        cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
