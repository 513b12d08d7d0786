"""Runs of a tile's axis, `S[i+C,d]`: what they mean, and that kernels read just that."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from loomgen.interp import interpret
from loomgen.runtime.tables import window_tables
from loomgen.spec import load
from loomgen.verify import verify_stages
from tests.examples.running import project

SPEC = """\
stage: runs
family: demo
dims: {C: 64, K: 64, V: 128, P: 32}
tensors:
  k: {access: in, dtype: bf16, shape: [T, H, K]}
  h: {access: in, dtype: bf16, shape: [NC, H, V, K]}
  G: {access: in, dtype: f32, shape: [NC, H, C]}
  alike: {access: out, dtype: f32, shape: [T, H]}
  inline: {access: out, dtype: f32, shape: [T, H]}
  crossed: {access: out, dtype: f32, shape: [T, H, K]}
  rows: {access: out, dtype: bf16, shape: [T, H, K]}
  cols: {access: out, dtype: bf16, shape: [T, H, P]}
  odd: {access: out, dtype: bf16, shape: [T, H, P]}
  wide: {access: out, dtype: f32, shape: [T, H, P]}
  once: {access: out, dtype: f32, shape: [T, H, K]}
  tail: {access: out, dtype: f32, shape: [NC, H, P]}
index: {i: C, j: C, d: K, f: K, e: V, p: P}
grid: {c: chunks, hv: H}
program: |
  S[e,d] = h[c,hv,e,d];  kc[i,d] = k[c[i],hv,d];  g[i] = G[c,hv,i]
  lo[i,d] = S[i+0,d];  hi[i,d] = S[i+C,d]
  near[i] = sum[d](f32(lo[i,d])*f32(hi[i,d]))
  alike[c[i],hv] = near[i]
  far[i] = sum[d](f32(S[C+i,d])*f32(kc[i,d]) - f32(S[i+8,d]))
  inline[c[i],hv] = far[i]
  up[d,j] = S[j+C,d]
  M[i,d] = kc[i,f] @ bf16(up[f,j] @ kc[j,d])
  crossed[c[i],hv,d] = M[i,d]
  rows[c[i],hv,d] = bf16(hi[i,f] @ S[f+32,d])
  right[i,p] = kc[i,p+32]
  cols[c[i],hv,p] = right[i,p]
  shifted[i,p] = kc[i,p+3]
  odd[c[i],hv,p] = shifted[i,p]
  part[i,p] = M[i,p+16]
  wide[c[i],hv,p] = part[i,p]
  mid[i,d] = S[i+32,d]
  scaled[i,d] = f32(mid[i,d])*g[i]
  once[c[i],hv,d] = scaled[i,d]
  gt[p] = g[p+C-P]
  tail[c,hv,p] = gt[p]
schedule: {rows: [i, d]}
"""
SPLIT = ("schedule: {rows: [i, d]", "schedule: {rows: i, split: {d: {parts: 2, across: 2}}")
ROWS_OF_TOKENS = (
    (
        "  up[d,j] = S[j+C,d]\n  M[i,d] = kc[i,f] @ bf16(up[f,j] @ kc[j,d])\n",
        "  M[i,d] = bf16(lo[i,f] @ kc[j,f]) @ kc[j,d]\n",
    ),
    ("rows[c[i],hv,d] = bf16(hi[i,f] @ S[f+32,d])", "rows[c[i],hv,d] = hi[i,d]"),
)
"""Two groups of warps share the keys, so that no keys are rows."""
LENGTHS, HEADS = (65, 0, 20), 2


IN_SHARED = ("rows: [i, d]", "rows: [i, d], place: {hi: shared}")


@pytest.mark.parametrize("edits", [(), (SPLIT, *ROWS_OF_TOKENS), (IN_SHARED,)], ids=["plain", "split", "shared"])
def test_the_kernel_has_the_bits_of_the_interpreter(tmp_path: Path, edits: tuple[tuple[str, str], ...]) -> None:
    kernels = load([project(tmp_path, SPEC, *edits)], tmp_path)
    rows = verify_stages(kernels, "emulate", LENGTHS, (HEADS, HEADS), (0, 1), root=tmp_path, arch="sm_90a")
    assert {row.tensor for row in rows} >= {"alike", "inline", "crossed", "rows", "cols", "odd", "wide", "once", "tail"}
    assert [(row.tensor, row.seed) for row in rows if not (row.bits and row.ok)] == []


def test_a_block_of_a_shared_tile_comes_by_ldmatrix(tmp_path: Path) -> None:
    project(tmp_path, SPEC)
    (source,) = (tmp_path / "generated" / "csrc" / "sm_90a" / "demo").glob("runs*.cu")
    text = source.read_text()
    assert "ldmatrix_x4(lo[step], S.at(16 * slab + lane_row, 16 * step + lane_col));" in text
    assert "ldmatrix_x4(mid[step], S.at(32 + 16 * slab + lane_row, 16 * step + lane_col));" in text
    assert "ldmatrix_x4(hi[step], S.at(64 + 16 * slab + lane_row, 16 * step + lane_col));" in text
    assert "ldmatrix_x4_trans(up[step], S.at(64 + 16 * step + pair_row, 16 * slab + pair_col));" in text
    assert "ldmatrix_x4(right[step], kc.at(16 * slab + lane_row, 32 + 16 * step + lane_col));" in text
    assert "ldmatrix_x4(shifted" not in text  # three elements are no multiple of 16 bytes


def test_a_run_is_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "stage.yaml"
    path.write_text(SPEC, encoding="utf-8")
    (kernel,) = load([path], tmp_path)
    tables = window_tables((64,), 64).by_name()
    gen = torch.Generator().manual_seed(3)
    shapes = ((64, 1, 64), (1, 1, 128, 64), (1, 1, 64))
    k, h, g = (torch.randn(*shape, generator=gen).bfloat16().double() for shape in shapes)
    results = {
        name: torch.zeros(*shape, dtype=torch.float64)
        for name, shape in {
            "alike": (64, 1), "inline": (64, 1), "crossed": (64, 1, 64), "rows": (64, 1, 64), "cols": (64, 1, 32),
            "odd": (64, 1, 32), "wide": (64, 1, 32), "once": (64, 1, 64), "tail": (1, 1, 32),
        }.items()
    }  # fmt: skip
    interpret(kernel.program, {"k": k, "h": h, "G": g, **results, **tables}, mode="float64")
    exact = expected(k[:, 0], h[0, 0], g[0, 0])
    for name, tensor in results.items():
        torch.testing.assert_close(tensor.squeeze(1 if name != "tail" else 0).squeeze(), exact[name])


def expected(k: Tensor, h: Tensor, g: Tensor) -> dict[str, Tensor]:
    crossed = k @ (h[64:].T @ k)
    return {
        "alike": (h[:64] * h[64:]).sum(1),
        "inline": (h[64:] * k - h[8:72]).sum(1),
        "crossed": crossed,
        "rows": h[64:] @ h[32:96],
        "cols": k[:, 32:],
        "odd": k[:, 3:35],
        "wide": crossed[:, 16:48],
        "once": h[32:96] * g[:, None],
        "tail": g[32:],
    }


def test_a_block_is_placed_where_the_schedule_says(tmp_path: Path) -> None:
    project(tmp_path, SPEC, IN_SHARED)
    (source,) = (tmp_path / "generated" / "csrc" / "sm_90a" / "demo").glob("runs*.cu")
    assert "constexpr int hi_offset" in source.read_text()
