"""Roles: what each runs, the rings between them, and a replay that misses nothing that is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import Plan, PlanOp, RingEnd, RoleArm
from loomgen.ir.print_plan import print_plan
from loomgen.ir.tile import ForRange
from loomgen.passes.connect_roles import check_liveness
from loomgen.passes.partition import partition
from loomgen.passes.pipeline import LoweredKernel, lower
from loomgen.passes.verify_roles import verify_roles
from loomgen.passes.verify_sync import verify_sync
from loomgen.spec import load
from loomgen.target import SM_90A
from tests.passes.gdn import ROOT


@cache
def matmul() -> LoweredKernel:
    (small,) = (k for k in load([ROOT / "specs/examples/matmul_tma.yaml"], ROOT) if ("K", 320) in k.program.dims)
    return lower(small, SM_90A)


def test_each_role_runs_its_statements_in_the_control_around_them() -> None:
    kernel = next(k for k in load([ROOT / "specs/examples/matmul_tma.yaml"], ROOT))
    load_part, multiply_part = partition(kernel.program, kernel.schedule)
    (loop,) = load_part.program.body
    assert isinstance(loop, ForRange)
    assert [stmt.text for stmt in loop.body] == ["at[i,k] = a[mb[i],m*KB+k]", "bt[o,k] = b[ob[o],m*KB+k]"]
    assert loop.carried == ()
    assert [stmt.text for stmt in multiply_part.program.body] == [
        "acc[i,o] = 0",
        "for m in range(K//KB)",
        "out[mb[i],ob[o]] = TX(acc[i,o])",
        "out[mb[i],ob[o]] = TX(acc[i,o])",
    ]


def test_the_plan_of_two_roles() -> None:
    assert print_plan(matmul().plan) == (
        "team: 12 slabs x 1 parts = 12 warps, 384 threads\n"
        "  role load, warps 0 .. 3, 40 registers a thread, in one thread:\n"
        "    for m in range(0, 5):\n"
        "      wait until the slot of at_bt is empty  (read at, bt -> write at, bt)\n"
        "      fill the slot of at_bt: 49152 bytes\n"
        "      copy in at[i,k] = a[mb[i], m*64 + k] by boxes, asynchronous\n"
        "      copy in bt[o,k] = b[ob[o], m*64 + k] by boxes, asynchronous\n"
        "  role multiply, warps 4 .. 11, 232 registers a thread:\n"
        "    map %acc[i,o]:f32 = 0.0\n"
        "    for m in range(0, 5):\n"
        "      wait until the slot of at_bt is full  (write at, bt -> read at, bt)\n"
        "      mma %acc[i,o]:f32 += at[i,k] @ bt[o,k] over k, wgmma, asynchronous\n"
        "      wait for all but 0 groups of products  (multiply to acc -> release at_bt)\n"
        "      release the slot of at_bt\n"
        "    map %out_tile[i,o]:bf16 = bf16(acc_4[i,o])  (from %acc[i,o]:f32)\n"
        "    store out_tile_out[i,o] = %out_tile[i,o]:bf16\n"
        "    fence for the copy and product hardware  (write out_tile_out -> read out_tile_out)\n"
        "    barrier of the block  (write out_tile_out -> read out_tile_out)\n"
        "    copy out out[mb[i], ob[o]] = out_tile_out[i,o] by boxes, asynchronous\n"
        "    wait for all but 0 groups of boxes  (read out_tile_out -> end of the block)\n"
    )


# --------------------------------------------------------------------------- nothing can be left out


def _without_each(ops: tuple[PlanOp, ...]) -> Iterator[tuple[PlanOp, tuple[PlanOp, ...]]]:
    """(what was left out, the rest) for everything that only orders."""
    for at, op in enumerate(ops):
        before, after = ops[:at], ops[at + 1 :]
        if isinstance(op, plan.Synchronisation):
            yield op, (*before, *after)
        if isinstance(op, plan.RangeLoop):
            for gone, body in _without_each(op.body):
                yield gone, (*before, replace(op, body=body), *after)


def _mutants() -> Iterator[tuple[PlanOp, Plan]]:
    whole = matmul().plan
    (roles,) = whole.body
    assert isinstance(roles, plan.Roles)
    for at, arm in enumerate(roles.arms):
        for gone, body in _without_each(arm.body):
            arms = (*roles.arms[:at], replace(arm, body=body), *roles.arms[at + 1 :])
            yield gone, replace(whole, body=(plan.Roles(arms=arms),))


def _verify(kernel: Plan) -> None:
    verify_sync(kernel, matmul().layout, "test")
    verify_roles(kernel, "test")


def test_what_is_left_out_is_missed() -> None:
    _verify(matmul().plan)
    mutants = list(_mutants())
    kinds = {type(gone) for gone, _ in mutants}
    every = {plan.RingWait, plan.RingFill, plan.RingRelease, plan.MmaWait, plan.BoxWait, plan.ProxyFence, plan.Barrier}
    assert kinds == every
    for gone, kernel in mutants:
        with pytest.raises(InternalError, match="internal error in test: "):
            _verify(kernel)
            pytest.fail(f"not missed: {gone}")


def _edited(role: str, edit: Callable[[RoleArm], RoleArm]) -> Plan:
    (roles,) = matmul().plan.body
    assert isinstance(roles, plan.Roles)
    arms = tuple(edit(arm) if arm.name == role else arm for arm in roles.arms)
    return replace(matmul().plan, body=(plan.Roles(arms=arms),))


def _in_loop(arm: RoleArm, edit: Callable[[tuple[PlanOp, ...]], tuple[PlanOp, ...]]) -> RoleArm:
    body = tuple(replace(op, body=edit(op.body)) if isinstance(op, plan.RangeLoop) else op for op in arm.body)
    return replace(arm, body=body)


def _early_release(body: tuple[PlanOp, ...]) -> tuple[PlanOp, ...]:
    """The slot is released while products still read it."""
    *rest, wait, release = body
    return (*rest, release, wait)


def _late_read(body: tuple[PlanOp, ...]) -> tuple[PlanOp, ...]:
    """The tile is read after it was given back."""
    wait, product, done, release = body
    return (wait, release, product, done)


def _wrong_end(body: tuple[PlanOp, ...]) -> tuple[PlanOp, ...]:
    return tuple(replace(op, end=RingEnd.FULL) if isinstance(op, plan.RingWait) else op for op in body)


@pytest.mark.parametrize(
    ("role", "edit", "fault"),
    [
        ("multiply", _early_release, "releases at, which products still read"),
        ("multiply", _late_read, "reads at of iteration 0 where it is not"),
        ("load", _wrong_end, "wait for each other for ever"),
        ("load", lambda body: (*body[:2], *body[3:]), "wait for each other for ever"),  # a box that is never asked for
        ("load", lambda body: (body[0], *body[2:], body[1]), "has not said so"),
    ],
    ids=["early release", "late read", "wrong phase", "missing box", "late announcement"],
)
def test_faults_between_roles(role: str, edit: Callable[[tuple[PlanOp, ...]], tuple[PlanOp, ...]], fault: str) -> None:
    with pytest.raises(InternalError, match=fault):
        verify_roles(_edited(role, lambda arm: _in_loop(arm, edit)), "test")


def test_roles_that_wait_for_each_other_in_one_iteration_are_refused() -> None:
    (ring, _) = matmul().layout.barriers[0]
    back = replace(ring, name="back", producer="multiply", consumer="load")
    check_liveness({"m": (ring,)})
    with pytest.raises(InternalError, match=r"load -> multiply|multiply -> load"):
        check_liveness({"m": (ring, back)})
