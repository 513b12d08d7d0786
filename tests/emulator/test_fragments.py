"""The lane maps of the warp collectives, element by element."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from loomgen.emulator import Buffer
from loomgen.emulator.arguments import Value
from loomgen.interp.functions import diagonal_inverse_16
from tests.emulator.support import bf16_bits, bf16_values, kernel_file, ordered_product, to_tf32

LANES = np.arange(32)
G = LANES // 4
T = LANES % 4


def tile() -> npt.NDArray[np.uint16]:
    return np.arange(256, dtype=np.uint16).reshape(16, 16)


def pairs(low: npt.NDArray[np.uint16], high: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint32]:
    both: npt.NDArray[np.uint32] = low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)
    return both


def held(matrix: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint32]:
    """The register of each lane for one 8x8 matrix."""
    return pairs(matrix[G, 2 * T], matrix[G, 2 * T + 1])


def quarters(x: npt.NDArray[np.uint16]) -> list[npt.NDArray[np.uint16]]:
    """The 8x8 matrices that lanes 0-7, 8-15, 16-23 and 24-31 point at."""
    return [x[:8, :8], x[8:, :8], x[:8, 8:], x[8:, 8:]]


def test_ldmatrix() -> None:
    kernel = kernel_file("fragments.cu", "load_fragments", "*tile *out")
    out = np.zeros((32, 4, 4), np.uint32)
    report = kernel.launch(
        {"tile": Buffer(tile(), "in"), "out": Buffer(out, "out")}, grid=1, block=32, shared_bytes=768
    )
    plain = np.stack([held(m) for m in quarters(tile())], axis=1)
    transposed = np.stack([held(m.T) for m in quarters(tile())], axis=1)
    np.testing.assert_array_equal(out[:, 0], plain)
    np.testing.assert_array_equal(out[:, 1], transposed)
    np.testing.assert_array_equal(out[:, 2, :2], plain[:, :2])
    np.testing.assert_array_equal(out[:, 2, 2:], transposed[:, :2])
    assert report.unwritten == {"out": 32 * 16}


@pytest.mark.parametrize("mode", range(4))
def test_stmatrix(mode: int) -> None:
    kernel = kernel_file("fragments.cu", "store_fragments", "*tile *out i:mode")
    out = np.zeros((16, 16), np.uint16)
    arguments: dict[str, Value] = {"tile": Buffer(tile(), "in"), "out": Buffer(out, "out"), "mode": mode}
    kernel.launch(arguments, grid=1, block=32, shared_bytes=2048)
    a, b, c, d = quarters(tile())
    none = np.zeros((8, 8), np.uint16)
    expected = [
        np.block([[a, c], [b, d]]),
        np.block([[a.T, c.T], [b.T, d.T]]),
        np.block([[a, none], [b, none]]),
        np.block([[a.T, none], [b.T, none]]),
    ]
    np.testing.assert_array_equal(out, expected[mode])


def multiply(a: npt.NDArray[np.uint32], b: npt.NDArray[np.uint32], c: npt.NDArray[np.float32], mode: int) -> None:
    """Runs the product on registers; c [16, 8] is updated in place."""
    kernel = kernel_file("fragments.cu", "multiply_fragments", "*a *b *c i:format")
    registers = np.stack([c[G, 2 * T], c[G, 2 * T + 1], c[G + 8, 2 * T], c[G + 8, 2 * T + 1]], axis=1)
    arguments: dict[str, Value] = {
        "a": Buffer(a, "in"),
        "b": Buffer(b, "in"),
        "c": Buffer(registers, "inout"),
        "format": mode,
    }
    kernel.launch(arguments, grid=1, block=32, shared_bytes=0)
    c[G, 2 * T], c[G, 2 * T + 1], c[G + 8, 2 * T], c[G + 8, 2 * T + 1] = registers.T


@pytest.mark.parametrize("mode", [0, 1])
def test_mma_of_halves(mode: int) -> None:
    rng = np.random.default_rng(2)
    values = [rng.standard_normal(shape).astype(np.float32) for shape in ((16, 16), (16, 8))]
    if mode == 0:
        a, b = (bf16_bits(x) for x in values)
        a_values, b_values = bf16_values(a), bf16_values(b)
    else:
        a, b = (x.astype(np.float16).view(np.uint16) for x in values)
        a_values, b_values = (x.view(np.float16).astype(np.float64) for x in (a, b))
    a_registers = np.stack([held(m) for m in quarters(a)], axis=1)
    b_registers = np.stack([held(b[:8].T), held(b[8:].T)], axis=1)
    c = rng.standard_normal((16, 8)).astype(np.float32)
    expected = ordered_product(a_values, b_values, c, block=16)
    multiply(np.ascontiguousarray(a_registers), np.ascontiguousarray(b_registers), c, mode)
    np.testing.assert_array_equal(c, expected)


def test_mma_of_tf32_ignores_the_low_bits() -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((16, 8)).astype(np.float32)
    b = rng.standard_normal((8, 8)).astype(np.float32)
    a_bits, b_bits = a.view(np.uint32), b.view(np.uint32)
    a_registers = np.stack([a_bits[G, T], a_bits[G + 8, T], a_bits[G, T + 4], a_bits[G + 8, T + 4]], axis=1)
    b_registers = np.stack([b_bits[T, G], b_bits[T + 4, G]], axis=1)
    a_values, b_values = ((x & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64) for x in (a_bits, b_bits))
    c = rng.standard_normal((16, 8)).astype(np.float32)
    expected = ordered_product(a_values, b_values, c, block=8)
    multiply(a_registers, b_registers, c, mode=2)
    np.testing.assert_array_equal(c, expected)


def test_shuffles() -> None:
    out = np.zeros((4, 32), np.float32)
    kernel_file("fragments.cu", "shuffles", "*out").launch(
        {"out": Buffer(out, "out")}, grid=1, block=32, shared_bytes=0
    )
    up = np.where(LANES < 4, LANES, LANES - 4)
    np.testing.assert_array_equal(out, [LANES ^ 5, LANES * 3 % 32, up, LANES ^ 16])


def test_inverse_of_a_unit_lower_triangle() -> None:
    lower = np.tril(np.random.default_rng(4).uniform(-0.5, 0.5, (16, 16)), -1).astype(np.float32)
    x = np.full((16, 16), np.nan, np.float32)
    kernel = kernel_file("fragments.cu", "invert_16", "*l *x")
    report = kernel.launch({"l": Buffer(lower, "in"), "x": Buffer(x, "out")}, grid=1, block=32, shared_bytes=7168)
    np.testing.assert_array_equal(x, to_tf32(diagonal_inverse_16(lower)))
    np.testing.assert_allclose(x @ (np.eye(16) + lower), np.eye(16), atol=5e-3)
    assert np.array_equal(np.triu(x), np.eye(16))
    here = next(counts for counts in report.primitives.values() if counts.get("st_shared") == 16 * 16)
    assert here == {"st_shared": 16 * 16, "ld_shared": 16 * (4 * (1 + 2 + 3) + 4 * (1 + 2 + 3))}
