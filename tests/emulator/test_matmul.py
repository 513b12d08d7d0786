"""A whole kernel: cp.async, ldmatrix and mma against the documented arithmetic, bit for bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from loomgen.emulator import Buffer, EmulatorFault, EmulatorOptions, EmulatorReport, FaultKind
from tests.emulator.support import bf16_bits, bf16_values, kernel_file, ordered_product

BITS = npt.NDArray[np.uint16]


def operands() -> tuple[BITS, BITS]:
    rng = np.random.default_rng(1)
    return bf16_bits(rng.standard_normal((64, 64))), bf16_bits(rng.standard_normal((64, 64)))


def matmul(a: BITS, b: BITS, options: EmulatorOptions) -> tuple[npt.NDArray[np.float32], EmulatorReport]:
    kernel = kernel_file("matmul_64.cu", "matmul_64", "*a *b *c")
    c = np.full((64, 64), np.nan, np.float32)
    arguments = {"a": Buffer(a, "in"), "b": Buffer(b, "in"), "c": Buffer(c, "out")}
    return c, kernel.launch(arguments, grid=1, block=128, shared_bytes=16384, options=options)


@pytest.mark.parametrize("completion", ["late", "random"])
def test_the_documented_arithmetic_bit_for_bit_whatever_the_seed(completion: str) -> None:
    a, b = operands()
    expected = ordered_product(bf16_values(a), bf16_values(b).T, np.zeros((64, 64), np.float32), block=16)
    for seed in range(20):
        options = EmulatorOptions(seed=seed, completion="late" if completion == "late" else "random")
        c, report = matmul(a, b, options)
        np.testing.assert_array_equal(c, expected)
        assert report.unwritten == {}


def test_no_bank_conflicts_and_exact_counts() -> None:
    _, report = matmul(*operands(), EmulatorOptions())
    assert report.conflicts == 0
    counts = sorted((name, n) for line in report.primitives.values() for name, n in line.items())
    assert counts == [
        ("cp_async_16", 512),
        ("cp_async_16", 512),
        ("cp_async_commit", 128),
        ("cp_async_commit", 128),
        ("cp_async_wait", 128),
        ("ldmatrix", 16),
        ("ldmatrix", 64),
        ("mma", 64),
        ("mma", 64),
        ("st_global", 1024),
        ("st_global", 1024),
        ("sync_block", 1),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_each_synchronisation_is_needed(seed: int) -> None:
    """Deleted in turn: the first commit is not needed, since one wait covers both groups; all others are."""
    _, report = matmul(*operands(), EmulatorOptions())
    sync = {"cp_async_commit", "cp_async_wait", "sync_block"}
    lines = [line for line, counts in sorted(report.primitives.items()) if sync & set(counts)]
    assert len(lines) == 4
    matmul(*operands(), EmulatorOptions(seed=seed, disabled_line=lines[0]))
    kinds = {FaultKind.PENDING_COPY, FaultKind.RACE, FaultKind.UNINITIALISED}
    for line in lines[1:]:
        with pytest.raises(EmulatorFault) as caught:
            matmul(*operands(), EmulatorOptions(seed=seed, disabled_line=line))
        assert caught.value.kind in kinds
        assert caught.value.statement == "c[i,j] = a[i,d] @ b[j,d]"
