"""Paths through small plans, event by event."""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir import plan
from loomgen.ir.tile import ArgRead, Binary, BinaryOp, Const
from loomgen.ir.types import DType
from loomgen.passes.trace import Event, leaves, range_trips, ring_depth, traces
from tests.passes.support import SPAN, buffer, copy_out, describe, kernel, load, numbered_loop, ring_loop, store

A, B = buffer("a"), buffer("b")
RING = buffer("r", slots=2)


def executed(events: list[Event]) -> list[str]:
    """The operations of a path with their iterations, without arrivals at loops and branches."""
    lines = []
    for event in events:
        if not hasattr(event.op, "__dataclass_fields__") or type(event.op).__name__ == "Reached":
            continue
        name = describe((event.op,))[0]  # type: ignore[arg-type]
        lines.append(f"{name} @{event.iteration} {'.'.join(map(str, event.path))}")
    return lines


def test_a_straight_plan_has_one_path() -> None:
    (path,) = traces(kernel(store(A), copy_out(A)))
    assert executed(path) == ["store a @0 0", "copy out a @0 1"]


def test_a_loop_runs_until_its_rings_have_come_round_twice() -> None:
    paths = list(traces(kernel(*ring_loop(RING, load(RING)))))
    assert len(paths) == 6
    assert executed(paths[0]) == ["commit @0 0.1"]
    assert executed(paths[2]) == [
        "copy in r @0 0.0",
        "commit @0 0.1",
        "arrive r @0 1.0",
        "copy in r @0 1.1.0",
        "commit @0 1.2",
        "load r @0 1.3",
        "arrive r @1 1.0",
        "commit @1 1.2",
        "load r @1 1.3",
    ]


def test_a_loop_between_numbers_never_runs_zero_times_nor_too_often() -> None:
    paths = [executed(path) for path in traces(kernel(numbered_loop(2, store(A))))]
    assert paths == [["store a @0 0.0"], ["store a @0 0.0"], *([["store a @0 0.0", "store a @1 0.0"]] * 2)]
    assert [executed(path) for path in traces(kernel(numbered_loop(0, store(A))))] == [[]] * 4


def test_a_loop_over_the_value_heads_of_a_key_head_runs_once_at_least() -> None:
    heads, keys = (ArgRead(name=name, dtype=DType.I32, span=SPAN) for name in ("HV", "H"))
    by_head = Binary(op=BinaryOp.FLOORDIV, a=heads, b=keys, dtype=DType.I32, span=SPAN)
    loop = replace(numbered_loop(1, store(A)), end=by_head)
    assert range_trips(loop)[0] == 1
    assert range_trips(replace(loop, begin=keys))[0] == range_trips(replace(loop, end=heads))[0] == 0
    assert [len(executed(path)) for path in traces(kernel(loop))] == [1, 1, 2, 3]


def test_a_branch_doubles_the_paths() -> None:
    cond = Const(value=True, dtype=DType.BOOL, span=SPAN)
    branch = plan.Conditional(cond=cond, homes=(), then=(store(A),), orelse=(store(B),), text="if x")
    assert [executed(path) for path in traces(kernel(branch, copy_out(A)))] == [
        ["store a @0 0.0.0", "copy out a @0 1"],
        ["store b @0 0.1.0", "copy out a @0 1"],
    ]


def test_leaves_are_in_program_order_and_say_how_deep_rings_are() -> None:
    preload, body = ring_loop(RING, load(RING))
    assert [type(leaf).__name__ for leaf in leaves(body)] == ["Arrive", "CopyIn", "Commit", "LoadFragment"]
    assert (ring_depth(preload), ring_depth(store(A))) == (2, 1)
