"""A chunk loop as a software pipeline."""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir import plan
from loomgen.ir.plan import PlanOp, RowTile
from loomgen.ir.schedule import Schedule
from loomgen.ir.tile import ForWindow
from loomgen.ir.types import DType
from loomgen.passes.rings import pipeline_loop
from tests.passes.support import CHUNKS, SPAN, buffer, copy_in, copy_out, describe, load, store, tile

A, B, OUT = buffer("a"), buffer("b"), buffer("out")
LOOP = ForWindow(window=CHUNKS, carried=(), body=(), text="for c in chunks(n)", span=SPAN)


def pipelined(*body: PlanOp, rings: dict[str, int] | None = None) -> tuple[PlanOp, ...]:
    return pipeline_loop(LOOP, body, Schedule(rings=tuple((rings or {}).items())))


def test_copies_run_ahead_and_copies_out_leave_last() -> None:
    assert describe(pipelined(copy_in(A), load(A), store(OUT), copy_out(OUT), load(A))) == [
        "preload 1: a",
        "loop",
        "  arrive a",
        "  prefetch 1: a",
        "  commit",
        "  load a",
        "  store out",
        "  load a",
        "  copy out out",
    ]


def test_rings_of_different_depth_are_filled_apart() -> None:
    assert describe(pipelined(copy_in(A), copy_in(B), load(A), load(B), rings={"a": 4, "b": 3})) == [
        "preload 2: b",
        "preload 3: a",
        "loop",
        "  arrive a b",
        "  prefetch 2: b",
        "  prefetch 3: a",
        "  commit",
        "  load a",
        "  load b",
    ]


def test_copies_are_issued_once_warps_have_met_for_a_products_sums() -> None:
    scratch = buffer("parts")
    numbers = RowTile(name="r", dtype=DType.F32, layout=load(A).dst.layout)
    sums, rows = (plan.ExchangeRead(dst=dst, scratch=scratch, text=f"add {dst.name}") for dst in (tile("x"), numbers))
    ahead = ["  arrive parts", "  prefetch 1: a", "  commit"]
    assert describe(pipelined(copy_in(A), load(A), sums))[2:] == ["  arrive a", "  load a", *ahead, "  add x"]
    assert describe(pipelined(copy_in(A), load(A), rows))[2:] == ["  arrive a", *ahead[1:], "  load a", "  add r"]


def test_every_reader_reads_the_ring() -> None:
    _, loop = pipelined(copy_in(A), load(A), rings={"a": 3})
    assert isinstance(loop, plan.ChunkLoop)
    read = loop.body[-1]
    assert isinstance(read, plan.LoadFragment)
    assert read.src == replace(load(A).src, buffer=replace(A, slots=3))


def test_what_runs_ahead_has_the_direction_of_its_loop() -> None:
    turned = replace(LOOP, is_reversed=True)
    preload, loop = pipeline_loop(turned, (copy_in(A), load(A)), Schedule())
    assert isinstance(preload, plan.Preload) and isinstance(loop, plan.ChunkLoop)
    prefetch = next(op for op in loop.body if isinstance(op, plan.Prefetch))
    assert (preload.is_reversed, loop.is_reversed, prefetch.is_reversed) == (True, True, True)


def test_a_loop_without_copies_is_a_loop() -> None:
    assert describe(pipelined(store(OUT), copy_out(OUT))) == ["loop", "  store out", "  copy out out"]
