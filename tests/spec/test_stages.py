"""Whole stages to Tile IR: the project's own, as text, and the worked ones of the language, by their telling lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from loomgen.ir.kernel import KernelSpec
from loomgen.ir.print_tile import print_program
from loomgen.ir.schedule import Schedule, Split
from loomgen.spec import load

ROOT = Path(__file__).parents[2]
STAGES = Path(__file__).parent / "stages"

FWD_O = """\
stage fwd_o
  dims C = 64, K = 128, V = 128
  run-time dims T, H, NC, HV
  tensor qn: in bf16 [T, H, 128]
  tensor kn: in bf16 [T, H, 128]
  tensor v_new: in bf16 [NC, HV, 128, 64]
  tensor h: in bf16 [NC, HV, 128, 128]
  tensor G: in f32 [NC, HV, 64]
  tensor o: out bf16 [T, HV, 128]
  scalar scale: f32
  index i < C = 64
  index j < C = 64
  index d < K = 128
  index e < V = 128
  grid c < NC: chunk of 64
  grid hv < HV
  qc[i,d]:bf16 = load qn[c[i], hv // (HV // H), d]
  kc[j,d]:bf16 = load kn[c[j], hv // (HV // H), d]
  hc[e,d]:bf16 = load h[c, hv, e, d]
  vn[e,j]:bf16 = load v_new[c, hv, e, j]
  g[i]:f32 = load G[c, hv, i]
  P_mm[i,j]:f32 = qc[i,d] @ kc[j,d] over d
  P[i,j]:bf16 = bf16(exp2(g[i] - g[j])*P_mm[i,j] if j <= i else 0.0)
  acc_mm[i,e]:f32 = qc[i,d] @ hc[e,d] over d
  acc[i,e]:f32 = exp2(g[i])*acc_mm[i,e]
  both[i,e]:f32 = acc[i,e] + P[i,j] @ vn[e,j] over j
  o_tile[i,e]:bf16 = bf16(scale*both[i,e])
  store o[c[i], hv, e] = o_tile[i,e]
"""
WY_BODY = """\
  kc[i,d]:bf16 = load kn[c[i], hv // (HV // H), d]
  g[i]:f32 = load G[c, hv, i]
  s[i]:f32 = load beta[c, hv, i]
  D[i,j]:f32 = exp2(g[i] - g[j]) if j < i else 0.0
  L_mm[i,j]:f32 = kc[i,d] @ kc[j,d] over d
  L[i,j]:f32 = L_mm[i,j]*(s[i]*D[i,j])
  U[i,j]:f32 = inverse of 1 + L[i,j]
  A_tile[i,j]:bf16 = bf16(U[i,j])
  store A[c[i], hv, j] = A_tile[i,j]
"""
FWD_H_BODY = """\
  S[e,d]:f32 = 0.0
  if given(h0):
    S_2[e,d]:f32 = load h0[n, hv, vb[e], d]
  S_3[e,d]:f32 = S_2 or S
  for c in chunks(n):
    carry S_4[e,d]:f32 = S_3, then S_5
    vc[i,e]:bf16 = load v[c[i], hv, vb[e]]
    kc[i,d]:bf16 = load kn[c[i], hv // (HV // H), d]
    Ac[j,i]:bf16 = load A[c[j], hv, i]
    g[i]:f32 = load G[c, hv, i]
    s[i]:f32 = load beta[c, hv, i]
    Sb[e,d]:bf16 = bf16(S_4[e,d])
    x_mm[e,i]:f32 = Sb[e,d] @ kc[i,d] over d
    x[e,i]:f32 = s[i]*(f32(vc[i,e]) - exp2(g[i])*x_mm[e,i])
    store h[c, hv, vb[e], d] = Sb[e,d]
    vn_lhs[e,i]:bf16 = bf16(x[e,i])
    vn[e,j]:f32 = vn_lhs[e,i] @ Ac[j,i] over i
    S_seed[e,d]:f32 = exp2(g[63])*S_4[e,d]
    S_lhs[e,j]:bf16 = bf16(exp2(g[63] - g[j])*vn[e,j])
    S_5[e,d]:f32 = S_seed[e,d] + S_lhs[e,j] @ kc[j,d] over j
    v_new_tile[e,j]:bf16 = bf16(vn[e,j])
    store v_new[c, hv, vb[e], j] = v_new_tile[e,j]
  S_6[e,d]:f32 = S_4 after the loop
  if given(ht):
    store ht[n, hv, vb[e], d] = S_6[e,d]
"""

TELLING: Mapping[str, tuple[str, ...]] = {
    "dqkwg": (
        "  gC:f32 = g[63]\n",
        "  z[j]:f32 = sum[d] t[j,d]*f32(kc[j,d])\n",
        "  dq_tile[i,d]:f32 = r[i,d] + B[i,j] @ kc[j,d] over j\n",
        "  dk_tile[j,d]:f32 = t[j,d] + B[i,j] @ qc[i,d] over i\n",
        "  end_sum:f32 = sum[j] z[j]\n  end_sum2:f32 = sum[e,d] f32(S[e,d])*f32(dS[e,d])\n",
        "  dG_sum[i]:f32 = sum[j] M[i,j]\n  dG_sum2[i]:f32 = sum[j] M[j,i]\n",
        "- z[i] + (end if i == c.last else 0.0)\n",
    ),
    "fwd_fused": (
        "    g[i]:f32 = cumsum[i] 1.4426950408889634*gate[c[i], hv]\n",
        "    kk[i,j]:f32 = kc[i,d] @ kc[j,d] over d\n    rk[i]:f32 = rsqrt(kk[i,i] + eps)\n",
        "    y[e,i]:f32 = x[e,j] @ A[i,j] over j\n",
        "    oT_lhs[e,j]:bf16 = bf16(y[e,j])\n    oT[e,i]:f32 = oT_seed[e,i] + oT_lhs[e,j] @ P[i,j] over j\n",
        "    store o[c[i], hv, vb[e]] = oc[i,e]\n",
    ),
    "decode": (
        "  first_live:i32 = 1\n  if slot < first_live:\n    out_tile[e]:bf16 = 0.0\n",
        "  else:\n    q0[d]:f32 = f32(qkv[n, hv // (HV // H)*128 + d])\n",
        "    v0[e]:f32 = f32(qkv[n, 2*H*128 + hv*128 + (vb*32 + e)])\n",
        "    sp:f32 = log(1.0 + exp(p)) if p <= 20.0 else p\n",
        "    store pool[slot, hv, vb[e], d] = S1[e,d]\n",
    ),
    "conv": (
        "  if slot == 0:\n    nothing\n  else:\n",
        "      for m in range(0, 4):\n        carry acc_2[i,a]:f32 = acc, then acc_3\n",
        "x[c[i + m + 1 - 4], ch[a]] if c.pos + i + m + 1 >= 4 else state[slot, ch[a], c.pos + i + m] if old else 0.0\n",
        "        acc_3[i,a]:f32 = acc_2[i,a] + f32(bf16(f32(xt[i,a])*f32(weight[ch[a], m])))\n",
        "    store state[slot, ch[a], p] = tail[p,a]\n",
    ),
}


def _own(stage: str) -> KernelSpec:
    return load([ROOT / "specs" / "gdn" / f"{stage}.yaml"], ROOT)[0]


def test_fwd_o() -> None:
    kernel = _own("fwd_o")
    assert print_program(kernel.program) == FWD_O
    assert str(kernel.name) == "fwd_o__c64_k128_v128_bf16__base"
    assert kernel.spec_path == "specs/gdn/fwd_o.yaml"
    assert kernel.schedule == Schedule(rows=("i",), warps=4)


@pytest.mark.parametrize(("stage", "body"), [("wy", WY_BODY), ("fwd_h", FWD_H_BODY)])
def test_bodies(stage: str, body: str) -> None:
    text = print_program(_own(stage).program)
    assert text[text.index(body[:12]) :] == body


def test_fwd_h_is_scheduled_as_written() -> None:
    kernel = _own("fwd_h")
    assert str(kernel.name) == "fwd_h__c64_k128_v128_bf16__r32k2"
    assert kernel.targets == ("sm_90a", "sm_100a", "sm_103a")
    assert kernel.schedule == Schedule(
        rows=("e",),
        splits=(Split(index="d", parts=2, across=2),),
        rings=(("kc", 2), ("vc", 2), ("Ac", 2), ("g", 2), ("s", 2)),
        min_blocks=2,
        place=(),
    )


def test_statements_carry_the_spec_statement_that_they_come_from() -> None:
    texts = [stmt.text for stmt in _own("fwd_o").program.body]
    assert texts[0] == "qc[i,d] = qn[c[i],hk,d]"
    assert texts[5] == texts[6] == "P[i,j] = TX(exp2(g[i] - g[j])*(qc[i,d] @ kc[j,d]) if j <= i else 0)"
    assert texts[9:] == ["both[i,e] = acc[i,e] + P[i,j] @ vn[e,j]", *["o[c[i],hv,e] = TX(scale*both[i,e])"] * 2]


@pytest.mark.parametrize("stage", TELLING)
def test_worked_stages(stage: str) -> None:
    text = print_program(load([STAGES / f"{stage}.yaml"], ROOT)[0].program)
    for lines in TELLING[stage]:
        assert lines in text


def test_a_dtype_parameter_and_a_static_branch_change_the_kernel() -> None:
    vllm, sglang = load([STAGES / "decode.yaml"], ROOT)
    assert str(sglang.name) == "decode__k128_v128_bf16_bf16__vb32__sglang_bf16"
    assert "first_live:i32 = 1" in print_program(vllm.program)
    assert "first_live:i32 = 0" in print_program(sglang.program)
    assert "store pool[slot, hv, vb[e], d] = pool_tile[e,d]" in print_program(sglang.program)
