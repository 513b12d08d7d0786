"""Plan IR as text."""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir import plan
from loomgen.ir.plan import SharedLayout
from loomgen.ir.print_plan import print_layout, print_plan
from loomgen.ir.types import DType
from tests.passes.gdn import lowered
from tests.passes.support import buffer, copy_out, kernel, load, ring_loop, store

RING = buffer("r", slots=2)
STAGED = replace(buffer("out"), swizzle=2)


def test_a_loop_over_a_ring() -> None:
    barrier = plan.Barrier(scope=plan.Scope.WARP, reason="write r -> read r")
    wait = plan.Wait(pending=1, reason="write r -> read r")
    before = ring_loop(RING, wait, barrier, load(RING), replace(store(STAGED), transposed=True))
    assert print_plan(kernel(*before, copy_out(STAGED))) == (
        "team: 2 slabs x 1 parts = 2 warps, 64 threads\n"
        "  preload the first 1 of chunks(n), a group each:\n"
        "    copy in r[i,d] = x[], 16 bytes a thread, asynchronous\n"
        "  for c in chunks(n):\n"
        "    arrive r[i,d]\n"
        "    prefetch chunk c + 1, if there is one:\n"
        "      copy in r^+1[i,d] = x[], 16 bytes a thread, asynchronous\n"
        "    commit\n"
        "    wait for all but 1 groups  (write r -> read r)\n"
        "    barrier of the warp  (write r -> read r)\n"
        "    load %r_id[i,d]:bf16 = r[i,d]\n"
        "    store out[i,d] = %out_id[i,d]:bf16, transposed\n"
        "  copy out x[] = out[i,d]\n"
    )


def test_a_loop_from_the_last_chunk_to_the_first() -> None:
    preload, over_chunks = ring_loop(buffer("r", slots=3))
    assert isinstance(over_chunks, plan.ChunkLoop) and isinstance(preload, plan.Preload)
    body = tuple(replace(op, is_reversed=True) if isinstance(op, plan.Prefetch) else op for op in over_chunks.body)
    turned = (replace(preload, is_reversed=True), replace(over_chunks, body=body, is_reversed=True))
    assert print_plan(kernel(*turned)).splitlines()[1:] == [
        "  preload the first 2 of reversed(chunks(n)), a group each:",
        "    copy in r[i,d] = x[], 16 bytes a thread, asynchronous",
        "  for c in reversed(chunks(n)):",
        "    arrive r[i,d]",
        "    prefetch chunk c - 2, if there is one:",
        "      copy in r^+2[i,d] = x[], 16 bytes a thread, asynchronous",
        "    commit",
    ]


def test_an_empty_block_says_so() -> None:
    assert print_plan(kernel()) == "team: 2 slabs x 1 parts = 2 warps, 64 threads\n  nothing\n"


def test_a_layout_is_listed_from_its_start() -> None:
    padded = replace(buffer("p", rows=2, cols=16, dtype=DType.F32), pitch=24)
    vector = buffer("v", rows=1, cols=64, dtype=DType.F32)
    offsets = ((vector, 8192), (RING, 0), (STAGED, 4096), (padded, 8192))
    assert print_layout(SharedLayout(offsets=offsets, n_bytes=8448)) == (
        "shared memory: 8448 bytes\n"
        "       0 .. 4096   r: bf16 32 x 32, 2 slots\n"
        "    4096 .. 6144   out: bf16 32 x 32, swizzle 2\n"
        "    8192 .. 8384   p: f32 2 x 16, pitch 24\n"
        "    8192 .. 8448   v: f32 64\n"
    )


def test_products_exchanges_and_branches_of_the_scan() -> None:
    text = print_plan(lowered("fwd_h").plan)
    for line in (
        "  if given(h0):",
        "    map %S[e,d/2]:f32 = h0[n, hv, vb[e], d]",
        "    mma %x_mm[e,i]:f32 = %Sb[e,d/2]:bf16 @ kc[i,d] over d, m16n8k16",
        "    exchange: write %x_mm[e,i]:f32 to x_mm_parts",
        "    exchange: %x_mm[e,i]:f32 = sum of the parts in x_mm_parts, low to high",
        "    mma %vn[e,j]:f32 = %vn_lhs[e,i]:bf16 @ Ac[j,i] over i, m16n8k16",
        "    mma %S[e,d/2]:f32 += %S_lhs[e,j]:bf16 @ kc[j,d], transposed over j, m16n8k16",
        "  if given(ht):",
        "    store ht[n, hv, vb[e], d] = %S[e,d/2]:f32",
    ):
        assert line in text.splitlines()


def test_blocks_of_the_inverse() -> None:
    lines = print_plan(lowered("wy").plan).splitlines()
    assert "  invert the diagonal blocks of 1 + U_tf32_smem[i,j] to U_diag[i,b16]" in lines
    assert "  mma %U2_sum[j,a16]:f32 += %U1_t[j,a16]:tf32 @ U_tf32_smem[a16 + 32,b16 + 16] over b16, m16n8k8" in lines


def test_strips_rows_and_sums() -> None:
    lines = print_plan(lowered("prep").plan).splitlines()
    assert "  load %qc[i,d x8]:bf16 = q[c[i], hk, d]" in lines
    assert "  reduce %qq[i]:f32 = sum[d] f32(qc[i,d])*f32(qc[i,d])  (from %qc[i,d x8]:bf16)" in lines
    assert "  map %rq[i]:f32 = rsqrt(qq[i] + eps) if normalise else 1.0  (from %qq[i]:f32)" in lines
    assert "    scan G_tile[i] = cumsum G_tile_terms[i]" in lines
