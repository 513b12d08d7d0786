"""What the passes reject in a stage that the front end accepts: each code once, at its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from loomgen.errors import SpecError
from loomgen.passes.pipeline import lower
from loomgen.spec import load
from loomgen.spec.codes import Code
from loomgen.target import target_named

MATMUL = """
stage: product
family: test
dims: {C: 64, K: 64, V: 32}
tensors:
  a: {access: in, dtype: bf16, shape: [T, K]}
  b: {access: in, dtype: bf16, shape: [T, K]}
  g: {access: in, dtype: f32, shape: [T]}
  o: {access: out, dtype: bf16, shape: [T, C]}
index: {i: C, j: C, d: K, e: V}
grid: {c: chunks}
program: |
  ai[i,d] = a[c[i],d];  bj[j,d] = b[c[j],d];  gi[i] = g[c[i]]
  p[i,j] = ai[i,d] @ bj[j,d] + gi[i]
  o[c[i],j] = bf16(p[i,j])
schedule: {rows: i}
"""

VECTOR = """
stage: vector
family: test
dims: {C: 64, K: 64}
tensors:
  a: {access: in, dtype: f32, shape: [T, K]}
  g: {access: in, dtype: f32, shape: [T]}
  o: {access: out, dtype: f32, shape: [T]}
  p: {access: out, dtype: f32, shape: [T, K]}
index: {i: C, j: C, d: K}
grid: {n: sequences}
program: |
  for c in chunks(n):
      ai[i,d] = a[c[i],d]
      gi[i] = g[c[i]]
      si[i] = sum[d](ai[i,d])
      o[c[i]] = si[i] + gi[i]
      p[c[i],d] = ai[i,d]
"""

ROLES = """
stage: roles
family: test
dims: {M: 128, O: 64, K: 128, KB: 64}
tensors:
  a: {access: in, dtype: bf16, shape: [M, K]}
  b: {access: in, dtype: bf16, shape: [O, K]}
  o: {access: out, dtype: bf16, shape: [M, O]}
index: {i: MB, k: KB, j: OB}
grid: {mb: "blocks(M, MB)", ob: "blocks(O, OB)"}
program: |
  acc[i,j] = 0
  for m in range(K // KB):
      at[i,k] = a[mb[i], m*KB + k];  bt[j,k] = b[ob[j], m*KB + k]
      acc[i,j] = acc[i,j] + at[i,k] @ bt[j,k]
  o[mb[i],ob[j]] = bf16(acc[i,j])
schedule:
  roles:
    load: {warps: 4, registers: 40, runs: [at, bt]}
    multiply: {warps: 4, registers: 232, runs: rest}
  rows: i
  atom: wgmma
  tma: [at, bt, o]
variants: {m64: {MB: 64, OB: 64}}
targets: [sm_90a]
"""


@dataclass(frozen=True)
class Case:
    code: Code
    base: str
    edits: tuple[tuple[str, str], ...]
    line: int

    @property
    def text(self) -> str:
        text = self.base
        for old, new in self.edits:
            assert old in text
            text = text.replace(old, new)
        return text


F32_PRODUCT = (("rows: i", "rows: [i, j]"), ("ai[i,d] @ bj[j,d]", "f32(ai[i,d]) @ f32(bj[j,d])"))
SUM_OF_SUMS = (("si[i] = sum[d](ai[i,d])", "r[i,d] = cumsum[i](ai[i,d]);  si[i] = sum[d](r[i,d])"),)
SPLIT_COLUMNS = (
    ("K: 64", "K: 64, B: 16"),
    ("d: K", "d: K, u: B"),
    ("  g: {", "  y: {access: in, dtype: f32, shape: [T, B]}\n  g: {"),
    ("+ gi[i]", "+ sum[u](y[c[i],u])"),
    ("{rows: i}", "{rows: i, split: {u: {parts: 4}}}"),
)
F32_SHARED = (
    ("{rows: i}", "{rows: i, place: {p: shared}}"),
    ("+ gi[i]", "* gi[i]"),
    ("bf16(p[i,j])", "bf16(p[i,j] + p[j,i])"),
)
CARRIED = (
    ("  for c in", "  v[i] = 0\n  for m in range(2):\n      v[i] = v[i] + 1\n  for c in"),
    ("si[i] + gi[i]", "si[i] + gi[i] + v[i]"),
)
INVERSE = (
    ("C: 64", "C: 40"),
    ("rows: i", "rows: [i, j]"),
    ("+ gi[i]", "+ gi[i]\n  L[i,j] = p[i,j] if j < i else 0\n  u[i,j] = unit_lower_inverse[i,j](L[i,j])"),
    ("bf16(p[i,j])", "bf16(u[i,j])"),
)
NARROW = (
    ("shape: [T, C]", "shape: [T, V]"),
    ("V: 32", "V: 4"),
    ("bj[j,d] = b[c[j],d]", "bj[j,d] = b[c[j],d];  x[i,e] = o[c[i],e]"),
    ("access: out", "access: inout"),
    ("o[c[i],j] = bf16(p[i,j])", "o[c[i],e] = bf16(f32(x[i,e]) + p[i,2])"),
)

TRANSPOSED = (("b[ob[j], m*KB + k]", "b[m*KB + k, ob[j]]"), ("shape: [O, K]", "shape: [K, O]"))
ROOMY = "warps: 8, registers: 232"

CASES = [
    Case(Code.UNEVEN_SLABS, MATMUL, (("rows: i", "rows: [i, e]"),), 16),
    Case(Code.WARP_COUNT, MATMUL, (("{rows: i}", "{rows: i, warps: 3}"),), 16),
    Case(Code.NO_MMA, MATMUL, F32_PRODUCT, 14),
    Case(Code.REDUCTION_SHAPE, VECTOR, SUM_OF_SUMS, 16),
    Case(Code.BAD_PLACE, MATMUL, F32_SHARED, 16),
    Case(Code.STRIP_COLUMNS, VECTOR, (("K: 64", "K: 96"),), 14),
    Case(Code.NO_ROW_INDEX, MATMUL, (("rows: i", "rows: j"),), 14),
    Case(Code.OUTSIDE_CHUNK, MATMUL, (("gi[i] = g[c[i]]", "gi[i] = g[c[i-1]]"),), 13),
    Case(Code.SPLIT_COUNT, MATMUL, (("{rows: i}", "{rows: i, split: {d: {parts: 4, across: 4}}}"),), 16),
    Case(Code.CARRIED_VECTOR, VECTOR, CARRIED, 14),
    Case(Code.ROLE_WARPS, ROLES, (("load: {warps: 4", "load: {warps: 3"),), 19),
    Case(Code.ROLE_WARPS, ROLES, (("registers: 40", "registers: 41"),), 19),
    Case(
        Code.ROLE_WARPS,
        ROLES,
        (("registers: 40", "registers: 240"), ("warps: 4, registers: 232", ROOMY), ("MB: 64", "MB: 128")),
        19,
    ),
    Case(Code.ROLE_DEPENDENCE, ROLES, (("tma: [at, bt, o]", "tma: [at, o]"),), 15),
    Case(Code.ROLE_DEPENDENCE, ROLES, (("runs: [at, bt]", "runs: [bt]"),), 14),
    Case(Code.ROLE_DEPENDENCE, ROLES, (("runs: [at, bt]", "runs: [at, bt, o]"),), 16),
    Case(Code.NO_BOX, ROLES, (("shape: [M, K]}", "shape: [M, K], strides: rows}"),), 14),
    Case(Code.NO_BOX, ROLES, (("KB: 64}", "KB: 32}"),), 14),
    Case(Code.NO_WARPGROUP_PRODUCT, ROLES, TRANSPOSED, 15),
    Case(Code.NO_WARPGROUP_PRODUCT, ROLES, (("OB: 64}", "OB: 32}"), ("tma: [at, bt, o]", "tma: [at, bt]")), 15),
    Case(Code.TILE_COLUMNS, MATMUL, (("K: 64", "K: 40"),), 14),
    Case(Code.TILE_COLUMNS, MATMUL, (("{rows: i}", "{rows: i, split: {d: {parts: 8}}}"),), 14),
    Case(Code.TILE_COLUMNS, MATMUL, SPLIT_COLUMNS, 15),
    Case(Code.TILE_COLUMNS, MATMUL, NARROW, 13),
    Case(Code.TILE_COLUMNS, MATMUL, INVERSE, 16),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code.value}-{case.base.split()[1]}")
def test_a_rejection_names_its_code_and_place(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "stage.yaml"
    path.write_text(case.text)
    with pytest.raises(SpecError) as caught:
        for kernel in load([path], tmp_path):
            lower(kernel, target_named("sm_90a"))
    found = [(item.code, item.span.line) for item in caught.value.diagnostics]
    assert found == [(case.code.value, case.line)]


@pytest.mark.parametrize("base", [MATMUL, VECTOR])
def test_the_stages_themselves_are_accepted(base: str, tmp_path: Path) -> None:
    path = tmp_path / "stage.yaml"
    path.write_text(base)
    (kernel,) = load([path], tmp_path)
    assert lower(kernel, target_named("sm_90a")).launch.threads == 128


def test_every_code_of_the_passes_has_a_case() -> None:
    tested = {case.code for case in CASES} | {Code.TOO_LARGE}  # with the resources' own tests
    assert tested >= {code for code in Code if code.value >= "LG100"}
