"""Products of warpgroups against the documented arithmetic, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from loomgen.emulator import Buffer
from tests.emulator.support import bf16_bits, bf16_values, kernel_file, ordered_product

CASES = [
    ("bf16", 64, 3),
    ("bf16", 128, 3),
    ("bf16", 256, 3),
    ("bf16", 64, 2),
    ("bf16", 64, 1),
    ("f16", 64, 3),
    ("f16", 128, 2),
    ("f16", 256, 1),
]


def encoded(element: str, values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.float64]]:
    """The bits of the values in that format, and what they stand for."""
    if element == "bf16":
        bits = bf16_bits(values)
        return bits, bf16_values(bits)
    halves = values.astype(np.float16)
    return halves.view(np.uint16), halves.astype(np.float64)


@pytest.mark.parametrize(("element", "cols", "swizzle"), CASES)
def test_one_k16_step_after_another(element: str, cols: int, swizzle: int) -> None:
    rng = np.random.default_rng(cols + swizzle)
    depth = 8 << swizzle
    a, a_values = encoded(element, rng.standard_normal((64, depth)))
    b, b_values = encoded(element, rng.standard_normal((cols, depth)))
    c = rng.standard_normal((64, cols)).astype(np.float32)
    expected = ordered_product(a_values, b_values.T, c, block=16)
    kernel = kernel_file("hopper_products.cu", f"product_{element}_{cols}_{swizzle}", "*a *b *c")
    arguments = {"a": Buffer(a, "in"), "b": Buffer(b, "in"), "c": Buffer(c, "inout")}
    report = kernel.launch(arguments, grid=1, block=128, shared_bytes=8192 + cols * depth * 2)
    np.testing.assert_array_equal(c, expected)
    assert sum(line.get("wgmma", 0) for line in report.primitives.values()) == depth // 16
