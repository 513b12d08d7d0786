"""A scan from the last chunk to the first: what it means, and that its kernel does just that."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from loomgen.interp import interpret
from loomgen.mutation import Kind, mutate
from loomgen.registry import load as load_registry
from loomgen.runtime.tables import window_tables
from loomgen.spec import load
from loomgen.verify import verify_stages
from tests.examples.running import project, sequences

SPEC = """\
stage: reverse_scan
family: demo
dims: {C: 64, K: 32, V: 32}
tensors:
  k: {access: in, dtype: bf16, shape: [T, H, K]}
  do: {access: in, dtype: bf16, shape: [T, H, V]}
  gate: {access: in, dtype: f32, shape: [T, H]}
  dht: {access: in, dtype: f32, shape: [N, H, V, K], optional: true}
  dh: {access: out, dtype: bf16, shape: [NC, H, V, K]}
  dx: {access: out, dtype: bf16, shape: [T, H, V]}
  end: {access: out, dtype: f32, shape: [NC, H]}
  dh0: {access: out, dtype: f32, shape: [N, H, V, K]}
index: {i: C, d: K, e: V}
grid: {n: sequences, h: H}
program: |
  S[e,d] = 0
  if given(dht):
      S[e,d] = dht[n,h,e,d]
  for c in reversed(chunks(n)):
      kc[i,d] = k[c[i],h,d];  dc[i,e] = do[c[i],h,e]
      g[i] = gate[c[min(i,c.last)],h];  bc[i,d] = k[c[i-1],h,d]
      Sb[e,d] = bf16(S[e,d])
      dh[c,h,e,d] = Sb[e,d]
      x[e,i] = Sb[e,d] @ bf16(f32(kc[i,d]) + f32(bc[i,d]))
      dx[c[i],h,e] = bf16(x[e,i])
      end[c,h] = f32(c.pos + c.len)
      S[e,d] = exp2(g[0])*S[e,d] + dc[i,e] @ kc[i,d]
  dh0[n,h,e,d] = S[e,d]
schedule: {rows: e, rings: {kc: 2, dc: 3}}
"""
_LATER = """\
      qc[i,d] = k[c[i],h,d]
      z[e,i] = bf16(S[e,d]) @ qc[i,d]
      y[c[i],h,e] = z[e,i]
      S[e,d] = 0.5*S[e,d] + f32(do[c[0],h,e])
"""
SPLIT = ("schedule: {rows: e,", "schedule: {rows: e, split: {d: {parts: 2, across: 2}},")
TWO_SLOTS = ("rings: {kc: 2, dc: 3}", "rings: {kc: 2, dc: 2}")
ONE_SLOT = ("rings: {kc: 2, dc: 3}", "rings: {kc: 1, dc: 2}")
FOUR_SLOTS = ("rings: {kc: 2, dc: 3}", "rings: {kc: 4, dc: 4}")
BOTH_WAYS = (
    ("  dh0[n,h,e,d] = S[e,d]\n", "  for c in chunks(n):\n" + _LATER + "  dh0[n,h,e,d] = S[e,d]\n"),
    ("  dh0: {", "  y: {access: out, dtype: f32, shape: [T, H, V]}\n  dh0: {"),
)
"""A second loop over the same chunks, from the first on, with copies of its own."""
TWO_ROLES = (
    ("V: 32}", "V: 64}"),
    ("      end[c,h]", "      r[i] = sum[d](f32(bc[i,d])); p[c[i],h] = r[i]\n      end[c,h]"),
    ("  dh0: {", "  p: {access: out, dtype: f32, shape: [T, H]}\n  dh0: {"),
    (" + f32(bc[i,d])", ""),
    ("schedule: {", "schedule: {roles: {a: {warps: 4, runs: [bc, r, p, end]}, b: {warps: 4, runs: rest}}, "),
)
"""Two roles, each with a reversed loop of its own, beside each other."""
LENGTHS = (0, 1, 64, 65, 200)
HEADS = 2


CASES = {
    "plain": (),
    "split": (SPLIT,),
    "one": (ONE_SLOT,),
    "four": (FOUR_SLOTS,),
    "both": BOTH_WAYS,
    "roles": TWO_ROLES,
}


@pytest.mark.parametrize("edits", CASES.values(), ids=CASES)
def test_the_kernel_has_the_bits_of_the_interpreter(tmp_path: Path, edits: tuple[tuple[str, str], ...]) -> None:
    kernels = load([project(tmp_path, SPEC, *edits)], tmp_path)
    for lengths in (LENGTHS, (321,)):
        rows = verify_stages(kernels, "emulate", lengths, (HEADS, HEADS), (0, 1), root=tmp_path, arch="sm_90a")
        assert {row.tensor for row in rows} >= {"dh", "dx", "end", "dh0"}
        assert [(row.tensor, row.seed) for row in rows if not (row.bits and row.ok)] == []


def inputs() -> dict[str, Tensor]:
    gen, n_tokens = torch.Generator().manual_seed(3), sum(LENGTHS)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=gen).bfloat16().double()

    return {
        "k": normal(n_tokens, HEADS, 32),
        "do": normal(n_tokens, HEADS, 32),
        "gate": -normal(n_tokens, HEADS).abs(),
        "dht": normal(len(LENGTHS), HEADS, 32, 32),
    }


def recurrence(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The sums from each chunk's later ones, by a loop over explicit lists of chunks."""
    k, do, gate = given["k"], given["do"], given["gate"]
    dh: list[Tensor] = []
    dx, dh0 = torch.zeros_like(do), given["dht"].clone()
    for n, tokens in enumerate(sequences(LENGTHS)):
        starts = list(range(tokens.start, tokens.stop, 64))
        states: dict[int, Tensor] = {}
        for start in starts[::-1]:
            own = slice(start, min(start + 64, tokens.stop))
            before = torch.cat([k[start - 1 : start] if start > tokens.start else 0 * k[:1], k[own][:-1]])
            states[start] = dh0[n].clone()
            dx[own] = torch.einsum("hed,ihd->ihe", dh0[n], k[own] + before)
            dh0[n] = gate[start].exp2()[:, None, None] * dh0[n] + torch.einsum("ihe,ihd->hed", do[own], k[own])
        dh += [states[start] for start in starts]
    return {"dh": torch.stack(dh), "dx": dx, "dh0": dh0}


def meaning(folder: Path, text: str) -> dict[str, Tensor]:
    """What the stage writes in float64."""
    path = folder / "stage.yaml"
    path.write_text(text, encoding="utf-8")
    (kernel,) = load([path], folder)
    given, tables = inputs(), window_tables(LENGTHS, 64).by_name()
    n_chunks, n_tokens = len(tables["chunk_start"]), sum(LENGTHS)
    results = {
        "dh": torch.zeros(n_chunks, HEADS, 32, 32, dtype=torch.float64),
        "dx": torch.zeros(n_tokens, HEADS, 32, dtype=torch.float64),
        "end": torch.zeros(n_chunks, HEADS),
        "dh0": torch.zeros(len(LENGTHS), HEADS, 32, 32, dtype=torch.float64),
    }
    interpret(kernel.program, {**given, **results, **tables}, mode="float64")
    return results


def test_each_chunk_sees_the_later_ones(tmp_path: Path) -> None:
    exact, found = recurrence(inputs()), meaning(tmp_path, SPEC)
    for name, tensor in exact.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-12, atol=1e-12)
    assert found["end"][:, 0].tolist() == [1, 64, 64, 65, 64, 128, 192, 200]
    forward = meaning(tmp_path, SPEC.replace("reversed(chunks(n))", "chunks(n)"))
    assert not torch.allclose(forward["dh0"], exact["dh0"], rtol=0.1)


def test_every_line_that_orders_chunks_is_needed(tmp_path: Path) -> None:
    project(tmp_path, SPEC, TWO_SLOTS)
    rows = mutate(load_registry("sm_90a", tmp_path).kernels, tmp_path, kinds=[Kind.DELETED, Kind.RING, Kind.ORDER])
    assert [(row.kind, row.line, row.text) for row in rows if row.killed_by is None] == []
    assert {row.text for row in rows if row.kind == "order"} == {
        "const int c_chunk = c_count - 1;",
        "const int c_chunk = c_count - 1 - c_it;",
        "const int next_chunk = c_count - 1 - next_it;",
    }
