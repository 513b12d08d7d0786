"""Plan IR: one broken plan for each rule, and the real ones, which keep them all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Fragment, PlanOp, RegisterTile, SharedBuffer, SharedLayout, SharedRef
from loomgen.ir.tile import Const
from loomgen.ir.types import DType, Index, Value
from loomgen.passes.verify_plan import verify_layout, verify_plan
from tests.passes.gdn import ALL_STAGES, lowered
from tests.passes.support import (
    CHUNKS,
    ROWS,
    SPAN,
    TWO_WARPS,
    D,
    J,
    buffer,
    copy_in,
    kernel,
    load,
    loop,
    ref,
    ring_loop,
    store,
    tile,
)

A, B = buffer("a"), buffer("b")
LOADED = load(A)
assert isinstance(LOADED.dst, RegisterTile)
HELD: RegisterTile = LOADED.dst
TWO_PARTS = plan.Team(slabs=2, parts=2)
ONE = Const(value=1.0, dtype=DType.F32, span=SPAN)


def accumulator(cols: Index = J, name: str = "acc") -> RegisterTile:
    return RegisterTile(
        name=name, dtype=DType.F32, fragment=Fragment(rows=tile("x").fragment.rows, cols=cols, col_parts=1)
    )


PRODUCT = plan.Mma(
    acc=accumulator(),
    a=HELD,
    b=SharedRef(buffer=B, axes=(J, D)),
    over=D,
    atom=plan.Atom.M16N8K16,
    transposed=False,
    seeded=False,
    parts=1,
    text="p = a @ b",
)


def fault(*body: PlanOp, team: plan.Team = TWO_WARPS) -> str:
    """What the verifier says, or nothing."""
    try:
        verify_plan(kernel(*body, team=team), "the pass")
    except InternalError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_the_plans_of_the_kernels_hold(stage: str) -> None:
    whole = lowered(stage)
    verify_plan(whole.plan, "synchronise")
    verify_layout(whole.plan, whole.layout, "allocate")


def test_a_fault_names_the_pass_and_the_operation() -> None:
    assert fault(store(A)) == (
        "internal error in the pass: a_id is read before it is written, in 'StoreFragment: store a'"
    )


def test_registers_are_written_before_they_are_read_on_every_path() -> None:
    given = lowered("fwd_h").plan.body[1]
    assert isinstance(given, plan.Conditional)
    one_arm = replace(given, then=(LOADED,), orelse=())
    assert fault(LOADED, store(A)) == ""
    assert "a_id is read before it is written" in fault(one_arm, store(A))
    assert fault(replace(one_arm, orelse=(LOADED,)), store(A)) == ""
    assert "a_id is read before it is written" in fault(loop(LOADED), store(A))
    assert "acc is read before it is written" in fault(LOADED, replace(PRODUCT, seeded=True))


def test_a_name_means_one_array_or_buffer() -> None:
    narrow = replace(HELD, fragment=replace(HELD.fragment, cols=replace(D, extent=16)))
    thin = replace(A, name="t", cols=16, pitch=16)
    other = replace(LOADED, dst=narrow, src=SharedRef(buffer=thin, axes=(narrow.fragment.rows, narrow.fragment.cols)))
    assert "register array a_id has two shapes" in fault(LOADED, other)
    assert "buffer a has two layouts" in fault(LOADED, replace(LOADED, src=ref(replace(A, pitch=40))))


def test_fragments_are_cut_evenly() -> None:
    assert "32 rows for 1 slabs" in fault(LOADED, team=plan.Team(slabs=1, parts=1))
    thirds = replace(HELD, fragment=replace(HELD.fragment, col_parts=3))
    assert "columns in 3 parts" in fault(replace(LOADED, dst=thirds))
    odd = replace(D, extent=24)
    tile_ = replace(HELD, fragment=replace(HELD.fragment, cols=odd))
    assert "24 columns in 1 parts of tiles of 16" in fault(replace(LOADED, dst=tile_))


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        (plan.Strip(rows=J, cols=D, vector=4, groups=4), "4 groups of 8 threads"),
        (plan.Strip(rows=J, cols=D, vector=5, groups=8), "32 columns by 5"),
    ],
)
def test_strips_are_cut_evenly(bad: plan.Strip, shown: str) -> None:
    tiles = [plan.StripTile(name=name, dtype=DType.F32, layout=bad) for name in "ab"]
    assert shown in fault(plan.Move(dst=tiles[0], src=tiles[1], text="move"))


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        (replace(A, pitch=16), "rows of a overlap"),
        (replace(A, swizzle=3), "a cannot be swizzled by 3"),
        (replace(A, cols=24, pitch=24, swizzle=1), "a cannot be swizzled by 1"),
        (replace(A, cols=48, pitch=48, swizzle=2), "a cannot be swizzled by 2"),
        (replace(A, rows=16), "a block reaches past a"),
    ],
)
def test_buffers_are_tiles_that_the_headers_take(bad: SharedBuffer, shown: str) -> None:
    assert shown in fault(replace(LOADED, src=ref(bad)))


def test_rings_are_touched_inside_loops_and_not_past_their_slots() -> None:
    ring = buffer("r", slots=2)
    assert fault(*ring_loop(ring, load(ring))) == ""
    assert "ring r is touched outside a loop" in fault(load(ring))
    assert "r 2 iterations ahead in 2 slots" in fault(loop(copy_in(ring, 2)))
    ahead = plan.Prefetch(window=CHUNKS, ahead=1, copies=(copy_in(ring, 1),))
    assert "prefetched outside a loop" in fault(ahead)


def test_what_runs_ahead_runs_ahead_of_its_own_loop() -> None:
    """A preload before a loop in the other direction, or of other chunks; a prefetch inside one."""
    ring = buffer("r", slots=2)
    preload, over_chunks = ring_loop(ring, load(ring))
    assert isinstance(over_chunks, plan.ChunkLoop) and isinstance(preload, plan.Preload)
    backward = tuple(replace(op, is_reversed=True) if isinstance(op, plan.Prefetch) else op for op in over_chunks.body)
    turned = replace(over_chunks, body=backward, is_reversed=True)
    assert fault(replace(preload, is_reversed=True), turned) == ""
    wanted = "copied ahead in another direction than 'for c in chunks(n)', in '"
    assert f"{wanted}Preload: '" in fault(preload, turned)
    assert f"{wanted}Preload: '" in fault(replace(preload, is_reversed=True), over_chunks)
    assert f"{wanted}Prefetch: '" in fault(preload, replace(over_chunks, body=backward))
    assert "copied ahead of no loop over c" in fault(preload)
    assert "copied ahead of no loop over b" in fault(replace(preload, window=replace(CHUNKS, name="b")), over_chunks)


def test_operands_fit_the_product() -> None:
    assert fault(LOADED, PRODUCT) == ""
    assert "b is (32, 16), not (32, 32)" in fault(
        LOADED, replace(PRODUCT, b=SharedRef(buffer=B, axes=(J, replace(D, extent=16))))
    )
    assert "does not run over" in fault(LOADED, replace(PRODUCT, over=replace(D, extent=16)))
    assert "m16n8k8 of bf16" in fault(LOADED, replace(PRODUCT, atom=plan.Atom.M16N8K8))
    assert "32 steps in 3 parts of 16" in fault(LOADED, replace(PRODUCT, parts=3))
    floats = replace(B, dtype=DType.F32)
    assert "the operands differ in dtype" in fault(LOADED, replace(PRODUCT, b=SharedRef(buffer=floats, axes=(J, D))))


def test_fragments_and_blocks_agree_in_shape_and_dtype() -> None:
    tall = buffer("a", rows=64)
    wide = SharedRef(buffer=tall, axes=(replace(J, extent=64), D))
    assert "a_id and a differ in shape" in fault(replace(LOADED, src=wide))
    assert "a_id and a differ in dtype" in fault(replace(LOADED, src=ref(replace(A, dtype=DType.F16))))


def test_partial_sums_are_exchanged_among_parts() -> None:
    scratch = SharedBuffer(name="parts", dtype=DType.F32, rows=16, cols=128, pitch=128, swizzle=0, slots=1)
    write = plan.ExchangeWrite(src=accumulator(), scratch=scratch, text="p")
    assert fault(LOADED, PRODUCT, write, team=TWO_PARTS) == ""
    assert "an exchange among one part" in fault(LOADED, PRODUCT, write)
    assert "parts is not (16, 128)" in fault(
        LOADED, PRODUCT, replace(write, scratch=replace(scratch, rows=8)), team=TWO_PARTS
    )


def test_numbers_of_rows_are_exchanged_among_parts() -> None:
    numbers = plan.RowTile(name="r", dtype=DType.F32, layout=accumulator().layout)
    scratch = SharedBuffer(name="parts", dtype=DType.F32, rows=2, cols=ROWS.extent, pitch=32, swizzle=0, slots=1)
    map_ = plan.MapRows(
        dst=numbers, value=Value(name="r", dtype=DType.F32, indices=(ROWS,)), expr=ONE, homes=(), text="r"
    )
    write = plan.ExchangeWrite(src=numbers, scratch=scratch, text="r")
    assert fault(map_, write, team=TWO_PARTS) == ""
    assert "r is read before it is written" in fault(write, team=TWO_PARTS)
    assert "parts is not (2, 32)" in fault(map_, replace(write, scratch=replace(scratch, rows=4)), team=TWO_PARTS)


def test_expressions_find_their_tiles() -> None:
    map_ = next(op for op in lowered("fwd_o").plan.body if isinstance(op, plan.MapFragment))
    with pytest.raises(InternalError, match="has no home"):
        verify_plan(kernel(replace(map_, homes=()), team=lowered("fwd_o").plan.team), "the pass")


def test_every_buffer_has_a_place_in_memory() -> None:
    layout = SharedLayout(offsets=((A, 128),), n_bytes=128 + A.n_bytes)
    verify_layout(kernel(LOADED), layout, "allocate")
    for broken, shown in (
        (SharedLayout(offsets=(), n_bytes=0), "buffer a has no place"),
        (replace(layout, offsets=((A, 64),)), "buffer a at bytes 64 .. 2112 of 2176"),
        (replace(layout, n_bytes=2048), "buffer a at bytes 128 .. 2176 of 2048"),
    ):
        with pytest.raises(InternalError, match=f"internal error in allocate: {shown}"):
            verify_layout(kernel(LOADED), broken, "allocate")
