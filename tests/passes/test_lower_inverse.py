"""The triangular inverse as small products, statement by statement, and what may read it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from loomgen.interp import interpret
from loomgen.ir.tile import Program
from loomgen.passes.lower_inverse import lower_inverse
from tests.passes.short import N_LOADS, lines_of, program_of

INVERSE = """
L[i,j] = f32(x[i,j]) if j < i else 0
U[i,j] = unit_lower_inverse[i,j](L[i,j])
A[i,j] = U[i,j]*g[i]
o[c[i],hv,j] = A[i,j]
"""


def test_two_block_rows(tmp_path: Path) -> None:
    assert lines_of(lower_inverse(program_of(tmp_path, INVERSE, chunk=32)))[N_LOADS + 1 :] == [
        "U_tf32[i,j]:tf32 = tf32(L[i,j])",
        "U_diag[i,b16]:tf32 = inverses of the diagonal blocks of 1 + U_tf32[i,j]",
        "U0_rhs[j,b16]:tf32 = tf32(1.0 if j == b16 else 0.0)",
        "U0[j,a16]:f32 = U0_rhs[j,b16] @ U_diag[a16,b16] over b16",
        "U0_t[j,a16]:tf32 = tf32(U0[j,a16])",
        "U1_sum[j,a16]:f32 = U0_t[j,b16] @ U_tf32[a16+16,b16] over b16",
        "U1_rhs[j,b16]:tf32 = tf32((1.0 if j == b16 + 16 else 0.0) - U1_sum[j,b16])",
        "U1[j,a16]:f32 = U1_rhs[j,b16] @ U_diag[a16+16,b16] over b16",
        "A0[j,a16]:f32 = U0[j,a16]*g[a16]",
        "A1[j,a16]:f32 = U1[j,a16]*g[a16+16]",
        "A[i,j]:f32 = concat(A0, A1)",
        "store o[c[i], hv, j] = A[i,j]",
    ]


@pytest.mark.parametrize("chunk", [16, 48, 64])
def test_the_products_are_the_inverse(chunk: int, tmp_path: Path) -> None:
    """In float64, against numpy; entries of size 0.3 make the inverse large."""
    before = program_of(tmp_path, INVERSE, chunk=chunk)
    exact, lowered = (result(program, chunk) for program in (before, lower_inverse(before)))
    np.testing.assert_allclose(lowered, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


def result(program: Program, chunk: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    gen = torch.Generator().manual_seed(0)
    given = {
        "a": 0.3 * torch.randn(chunk, 1, chunk, generator=gen).bfloat16(),
        "b": torch.zeros(chunk, 1, chunk, dtype=torch.bfloat16),
        "f": torch.ones(chunk, 1),
        "o": torch.zeros(chunk, 1, chunk, dtype=torch.float64),
        "chunk_start": torch.tensor([0], dtype=torch.int32),
        "chunk_len": torch.tensor([chunk], dtype=torch.int32),
    }
    interpret(program, given, mode="float64")
    return given["o"][:, 0].numpy()


def test_an_inverse_that_is_read_transposed_is_put_together_first(tmp_path: Path) -> None:
    swapped = program_of(tmp_path, INVERSE.replace("U[i,j]*g[i]", "U[j,i]*g[i]"))
    assert lines_of(lower_inverse(swapped))[-3:] == [
        "U[i,j]:f32 = concat(U0)",
        "A[i,j]:f32 = U[j,i]*g[i]",
        "store o[c[i], hv, j] = A[i,j]",
    ]
