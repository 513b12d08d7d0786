"""Reductions over a split index: what each group of warps does, in which order, and where the groups meet."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.order import ReduceOrder
from loomgen.ir.plan import Fragment, Plan, PlanOp, RowTile
from loomgen.ir.print_plan import print_plan
from loomgen.ir.tile import ReduceOp
from loomgen.ir.types import DType
from loomgen.passes.determinism import check_determinism
from loomgen.passes.gather_exchanges import gather_exchanges
from loomgen.passes.pipeline import LoweredKernel, lower
from loomgen.passes.select import reduce_order
from loomgen.passes.verify_sync import verify_sync
from loomgen.spec import load
from loomgen.target import target_named
from tests.passes.support import ROWS, D, buffer, describe, tile

SPEC = """
stage: sums
family: test
dims: {C: 32, K: 64}
tensors:
  a: {access: in, dtype: bf16, shape: [T, K]}
  b: {access: in, dtype: bf16, shape: [T, K]}
  s: {access: out, dtype: f32, shape: [T]}
  m: {access: out, dtype: f32, shape: [T]}
  o: {access: out, dtype: f32, shape: [T, C]}
index: {i: C, j: C, d: K}
grid: {c: chunks}
program: |
  ai[i,d] = a[c[i],d];  bj[j,d] = b[c[j],d]
  z[i] = sum[d](f32(ai[i,d])*f32(ai[i,d]))
  y[i] = max[d](f32(ai[i,d]))
  p[i,j] = ai[i,d] @ bj[j,d]
  o[c[i],j] = z[i]*p[i,j]
  w[i] = sum[j](p[i,j])
  s[c[i]] = z[i] - w[i];  m[c[i]] = y[i]
schedule: {rows: i, split: {d: {parts: 2, across: KS}}}
variants: {k2: {KS: 2}, k1: {KS: 1}}
"""


@cache
def lowered(variant: str, folder: Path) -> LoweredKernel:
    path = folder / "sums.yaml"
    path.write_text(SPEC)
    kernel = next(each for each in load([path], folder) if each.name.variant == variant)
    return lower(kernel, target_named("sm_90a"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sums")


def lines(kernel: LoweredKernel) -> list[str]:
    """Of the plan, what reduces, exchanges and meets."""
    kinds = ("reduce", "exchange", "barrier of the block")
    text = (line.strip() for line in print_plan(kernel.plan).splitlines())
    return [line for line in text if line.startswith(kinds)]


def test_two_groups_exchange_what_they_reduced(folder: Path) -> None:
    """The barrier for bj serves z and y, too."""
    assert lines(lowered("k2", folder)) == [
        "barrier of the block  (write ai -> read ai)",
        "reduce %z[i]:f32 = sum[d] f32(ai[i,d])*f32(ai[i,d])  (from %ai_id[i,d/2]:bf16)",
        "barrier of the block  (read ai -> write z_parts, y_parts)",
        "exchange: write %z[i]:f32 to z_parts",
        "reduce %y[i]:f32 = max[d] f32(ai[i,d])  (from %ai_id[i,d/2]:bf16)",
        "exchange: write %y[i]:f32 to y_parts",
        "barrier of the block  (write bj -> read bj)",
        "barrier of the block  (read bj -> write p_parts)",
        "exchange: write %p[i,j]:f32 to p_parts",
        "barrier of the block  (write p_parts -> read p_parts)",
        "exchange: %p[i,j]:f32 = sum of the parts in p_parts, low to high",
        "exchange: %z[i]:f32 = sum of the parts in z_parts, low to high",
        "exchange: %y[i]:f32 = max of the parts in y_parts, low to high",
        "reduce %w[i]:f32 = sum[j] p[i,j]  (from %p[i,j]:f32)",
    ]


def test_numbers_of_rows_meet_whatever_columns_they_come_from(folder: Path) -> None:
    (difference,) = of_kind(lowered("k2", folder).plan, plan.MapRows)
    assert isinstance(difference, plan.MapRows)
    assert [type(home) for _, home in difference.homes] == [RowTile, RowTile]


def test_one_group_reduces_its_parts_apart(folder: Path) -> None:
    assert lines(lowered("k1", folder)) == [
        "barrier of the block  (write ai -> read ai)",
        "reduce %z[i]:f32 = sum[d] f32(ai[i,d])*f32(ai[i,d])  (from %ai_id[i,d]:bf16), 2 parts",
        "reduce %y[i]:f32 = max[d] f32(ai[i,d])  (from %ai_id[i,d]:bf16), 2 parts",
        "barrier of the block  (write bj -> read bj)",
        "reduce %w[i]:f32 = sum[j] p[i,j]  (from %p[i,j]:f32)",
    ]


def test_the_variants_have_one_order(folder: Path) -> None:
    two, one = lowered("k2", folder).orders, lowered("k1", folder).orders
    assert two == one
    order = two["z"]
    assert isinstance(order, ReduceOrder)
    assert (order.parts, len(order.partials)) == (2, 8)
    assert order.partials[0] == (0, 1, 8, 9, 16, 17, 24, 25)
    assert order.partials[4] == (32, 33, 40, 41, 48, 49, 56, 57)


def test_parts_of_parts_are_in_order() -> None:
    whole = reduce_order(Fragment(rows=ROWS, cols=D, col_parts=1), 4)
    assert whole == ReduceOrder(
        partials=tuple((8 * part + 2 * q, 8 * part + 2 * q + 1) for part in range(4) for q in range(4)), parts=4
    )


# --------------------------------------------------------------------------- where the groups meet


def numbers(name: str) -> RowTile:
    return RowTile(name=name, dtype=DType.F32, layout=Fragment(rows=ROWS, cols=D, col_parts=2))


def exchange(name: str) -> tuple[PlanOp, PlanOp]:
    scratch = buffer(f"{name}_parts", rows=2, cols=32, dtype=DType.F32)
    write = plan.ExchangeWrite(src=numbers(name), scratch=scratch, text=f"write {name}")
    return write, plan.ExchangeRead(dst=numbers(name), scratch=scratch, text=f"read {name}")


def use(name: str) -> PlanOp:
    ref = plan.SharedRef(buffer=buffer(f"{name}_smem", rows=1, dtype=DType.F32), axes=(ROWS,))
    return plan.StoreRows(dst=ref, src=numbers(name), text=f"use {name}")


def gathered(*ops: PlanOp) -> list[str]:
    return describe(tuple(gather_exchanges(ops)))


def test_results_are_completed_where_the_first_is_used() -> None:
    assert gathered(*exchange("r"), *exchange("s"), use("s"), use("r"), *exchange("t")) == [
        "write r",
        "write s",
        "read r",
        "read s",
        "use s",
        "use r",
        "write t",
        "read t",
    ]


def test_a_result_is_complete_before_a_loop_that_uses_it() -> None:
    inner = plan.Conditional(cond=None, homes=(), then=(use("r"),), orelse=(), text="if")  # type: ignore[arg-type]
    assert gathered(*exchange("r"), inner) == ["write r", "read r", "if"]


def test_a_products_sums_are_completed_at_once() -> None:
    scratch = buffer("x_parts", rows=16, cols=128, dtype=DType.F32)
    write = plan.ExchangeWrite(src=tile("x"), scratch=scratch, text="write x")
    read = plan.ExchangeRead(dst=tile("x"), scratch=scratch, text="read x")
    assert gathered(write, read, *exchange("r"), use("s")) == ["write x", "read x", "write r", "use s", "read r"]


# --------------------------------------------------------------------------- what must not be missing


def without(kernel: Plan, *gone: PlanOp) -> Plan:
    return replace(kernel, body=tuple(op for op in kernel.body if not any(op is each for each in gone)))


def of_kind(kernel: Plan, kind: type[PlanOp]) -> list[PlanOp]:
    return [op for op in kernel.body if isinstance(op, kind)]


def test_the_check_misses_an_exchange(folder: Path) -> None:
    whole = lowered("k2", folder)
    for kind in (plan.ExchangeRead, plan.ExchangeWrite):
        gone = next(op for op in of_kind(whole.plan, kind) if "z[i]" in getattr(op, "text", ""))
        with pytest.raises(InternalError, match="the parts of z are not combined"):
            check_determinism(whole.program, without(whole.plan, gone), whole.orders)
    as_sums = tuple(replace(op, op=ReduceOp.SUM) if isinstance(op, plan.ExchangeRead) else op for op in whole.plan.body)
    with pytest.raises(InternalError, match="the parts of y are not combined"):
        check_determinism(whole.program, replace(whole.plan, body=as_sums), whole.orders)


def test_the_replay_misses_each_barrier(folder: Path) -> None:
    whole = lowered("k2", folder)
    barriers = of_kind(whole.plan, plan.Barrier)
    assert barriers
    for barrier in barriers:
        with pytest.raises(InternalError):
            verify_sync(without(whole.plan, barrier), whole.layout, "synchronise")
