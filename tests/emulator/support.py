"""What the emulator's tests share: compiling a kernel, and 16-bit formats in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import loomgen
from loomgen.emulator import Buffer, EmulatedKernel, KernelSource, Parameter, TensorMap, compile_kernels
from loomgen.emulator.arguments import Access
from loomgen.emulator.build import Kind

KERNELS = Path(__file__).parent / "kernels"
INCLUDE = Path(loomgen.__file__).parent / "include"
CACHE = Path(loomgen.__file__).parent.parent / "build" / "emulator"  # keyed by content: shared by all tests and runs

_KINDS: dict[str, Kind] = {"*": "pointer", "i": "i32", "l": "i64", "f": "f32", "b": "bool", "m": "tensor_map"}


def parameters(signature: str) -> list[Parameter]:
    """``"*a m:map i:n"``: a pointer ``a``, a tensor map ``map``, and ``n``, an i32."""
    words = [word.replace("*", "*:") if word.startswith("*") else word for word in signature.split()]
    return [Parameter(name, _KINDS[kind]) for kind, name in (word.split(":") for word in words)]


def compiled(path: Path, symbol: str, signature: str, cache: Path = CACHE) -> EmulatedKernel:
    source = KernelSource(path=path, symbol=symbol, parameters=tuple(parameters(signature)))
    return compile_kernels([source], [INCLUDE], cache)[0]


def kernel_file(file: str, symbol: str, signature: str) -> EmulatedKernel:
    """A kernel of ``kernels/``."""
    return compiled(KERNELS / file, symbol, signature)


def kernel_text(
    folder: Path,
    body: Sequence[str],
    signature: str = "*x *y",
    c_parameters: str = "",
    headers: Sequence[str] = ("loom/loom.cuh",),
) -> EmulatedKernel:
    """A kernel ``k`` of the statements ``body``; the first of them stands on line 4 + the number of headers."""
    c_parameters = c_parameters or "const float* x, float* y"
    lines = [
        *(f'#include "{header}"' for header in headers),
        "using namespace loom;",
        "/// y = f(x)",
        f"LOOM_KERNEL(128, 1) k({c_parameters}) {{",
    ]
    path = folder / "k.cu"
    path.write_text("\n".join([*lines, *body, "}", ""]))
    return compiled(path, "k", signature)


def bf16_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    """float32 to bf16 by truncation."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def rounded_bf16_bits(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """float32 to bf16, to nearest even; not for NaN."""
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def box_map(name: str, array: npt.NDArray[Any], access: Access, *, rows: int, cols: int, swizzle: int = 3) -> TensorMap:
    """A map of the matrix ``array`` by boxes of ``rows`` x ``cols``."""
    return TensorMap(
        tensor=name,
        buffer=Buffer(array, access),
        rows=array.shape[0],
        cols=array.shape[1],
        box_rows=rows,
        box_cols=cols,
        swizzle=swizzle,
    )


def bf16_values(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float64]:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def to_tf32(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Round to nearest, ties away from zero, to 10 fraction bits."""
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    return np.where(np.isfinite(values), rounded, values).astype(np.float32)


def ordered_product(
    a: npt.NDArray[np.float64], b: npt.NDArray[np.float64], c: npt.NDArray[np.float32], block: int
) -> npt.NDArray[np.float32]:
    """c + a @ b, one block of ``block`` products at a time: summed in double in ascending order, rounded once."""
    for start in range(0, a.shape[1], block):
        total = np.zeros(c.shape)
        for k in range(start, start + block):
            total = total + a[:, k : k + 1] * b[k : k + 1, :]
        c = (c.astype(np.float64) + total).astype(np.float32)
    return c
