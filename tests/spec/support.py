"""A small spec to take apart, and what loading it gives."""

from __future__ import annotations

from pathlib import Path

from loomgen.errors import Diagnostic, SpecError
from loomgen.ir.kernel import KernelSpec
from loomgen.ir.print_tile import print_program
from loomgen.spec import load

BASE = """\
stage: demo
family: gdn
dims: {C: 16, K: 32, V: 32}
params: {mode: {choices: [plain, split], default: plain}}
dtypes: {TX: bf16}
tensors:
  k: {access: in, dtype: TX, shape: [T, H, K]}
  v: {access: in, dtype: TX, shape: [T, HV, V]}
  s0: {access: in, dtype: f32, shape: [N, HV, V, K], optional: true}
  slots: {access: in, dtype: i32, shape: [N], distinct: true}
  pool: {access: inout, dtype: f32, shape: [SLOTS, HV, V]}
  y: {access: out, dtype: TX, shape: [T, HV, V]}
scalars: {scale: f32, count: i32}
index: {i: C, j: C, d: K, e: VB}
grid: {n: sequences, hv: HV, vb: "blocks(V, VB)"}
where: {hk: "hv // (HV // H)"}
program: |
  slot = slots[n]
  S[e,d] = 0
  if given(s0):
      S[e,d] = s0[n,hv,vb[e],d]
  for c in chunks(n):
      kc[i,d] = k[c[i],hk,d];  vc[i,e] = v[c[i],hv,vb[e]]
      a[i,j] = kc[i,d] @ kc[j,d]
      y[c[i],hv,vb[e]] = TX(scale*(TX(a[i,j]) @ vc[j,e]))
      S[e,d] = S[e,d] + vc[i,e] @ kc[i,d]
  p[e] = pool[slot,hv,vb[e]] if count > 0 else 0
  pool[slot,hv,vb[e]] = p[e] + sum[d](S[e,d])
schedule: {rows: e, split: {d: {parts: 2}}, rings: {kc: 2}, place: {y: direct}}
variants: {v16: {VB: 16}, v32: {VB: 32}}
instantiations: {plain: {mode: plain}, split: {mode: split}}
"""
FIRST, LAST = "      a[i,j] = kc[i,d] @ kc[j,d]\n", "  pool[slot,hv,vb[e]] = p[e] + sum[d](S[e,d])\n"
"""The statement of the loop that most cases replace, and the program's last one."""


def write(folder: Path, text: str, name: str = "demo.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def kernels_of(folder: Path, text: str) -> tuple[KernelSpec, ...]:
    return load([write(folder, text)], folder)


def mistakes_in(folder: Path, text: str) -> tuple[Diagnostic, ...]:
    """What loading ``text`` reports; fails when it reports nothing."""
    try:
        kernels_of(folder, text)
    except SpecError as error:
        return error.diagnostics
    raise AssertionError("the spec was accepted")


def body_of(folder: Path, program: str, declarations: str = "") -> list[str]:
    """The Tile IR lines of a short program over one chunk window ``c`` and one grid integer ``hv``."""
    indented = "".join(f"  {line}\n" for line in program.strip("\n").split("\n"))
    text = f"{SHORT}{declarations}program: |\n{indented}"
    printed = print_program(kernels_of(folder, text)[0].program)
    lines = printed.splitlines()
    last_grid = max(k for k, line in enumerate(lines) if line.startswith("  grid "))
    return [line[2:] for line in lines[last_grid + 1 :]]


SHORT = """\
stage: short
family: gdn
dims: {C: 16, K: 32}
tensors:
  a: {access: in, dtype: bf16, shape: [T, HV, C]}
  b: {access: in, dtype: bf16, shape: [T, HV, C]}
  f: {access: in, dtype: f32, shape: [T, HV]}
  o: {access: out, dtype: f32, shape: [T, HV, C]}
index: {i: C, j: C, l: C, d: K}
grid: {c: chunks, hv: HV}
"""
TILES = "x[i,l] = a[c[i],hv,l]; y[j,l] = b[c[j],hv,l]; g[i] = f[c[i],hv]\n"
"""Two bf16 tiles and an f32 vector for the short programs."""
