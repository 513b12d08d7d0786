"""Contractions, sums, scans, inverses and control flow with exact expectations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from loomgen.errors import InternalError
from loomgen.interp import Mode, interpret
from loomgen.interp.functions import diagonal_inverse_16
from loomgen.ir import tile
from loomgen.ir.order import M16N8K8, M16N8K16, ContractOrder, ReduceOrder
from loomgen.ir.types import DType, Index, Value
from tests.interp import programs as p

all_modes = pytest.mark.parametrize("mode", ["float64", "rounded", "ordered"])

M, N = p.index("m", 2), p.index("n", 3)
RNG_SEED = 13


def run(
    *body: tile.Stmt, result: Value, mode: Mode, inputs: dict[tile.Tensor, torch.Tensor] | None = None, **rest: Any
) -> torch.Tensor:
    """The tile ``result`` (floating, with at least one index) after ``body``, as float64."""
    out = p.tensor("out", *result.shape, dtype=result.dtype, access="out")
    written = torch.zeros(result.shape, dtype=torch.float64)
    given = inputs or {}
    program = p.program(*body, p.store(out, result, *(p.letter(i) for i in result.indices)), tensors=(*given, out))
    interpret(program, {**{t.name: x for t, x in given.items()}, "out": written}, mode=mode, **rest)
    return written


def loaded(name: str, x: torch.Tensor, *indices: Index, dtype: DType = p.F32) -> tuple[tile.Load, tile.Tensor]:
    of = p.tensor(name, *x.shape, dtype=dtype)
    return p.load(p.value(name, *indices, dtype=dtype), of, *(p.letter(i) for i in indices)), of


# --------------------------------------------------------------------------- contractions


def contraction(
    a: torch.Tensor, b: torch.Tensor, mode: Mode, *, dtype: DType, seed: float | None = None, **rest: Any
) -> torch.Tensor:
    """``x[m, n] = seed + sum over k of a[m, k] b[n, k]``"""
    m, n, k = p.index("m", a.shape[0]), p.index("n", b.shape[0]), p.index("k", a.shape[1])
    (load_a, tensor_a), (load_b, tensor_b) = loaded("a", a, m, k, dtype=dtype), loaded("b", b, n, k, dtype=dtype)
    start, x = p.value("start", m, n), p.value("x", m, n)
    body = (
        load_a,
        load_b,
        p.map_(start, p.const(seed or 0.0)),
        p.contract(x, p.read(load_a.value), p.read(load_b.value), k, seed=None if seed is None else p.read(start)),
    )
    return run(*body, result=x, mode=mode, inputs={tensor_a: a, tensor_b: b}, **rest)


@all_modes
def test_contract_small_integers(mode: Mode) -> None:
    a = torch.arange(32.0).reshape(2, 16)
    b = torch.arange(48.0).reshape(3, 16) - 20
    for dtype in (p.BF16, p.F16, p.TF32, p.F32):
        assert torch.equal(contraction(a, b, mode, dtype=dtype), a.double() @ b.double().T)
        assert torch.equal(contraction(a, b, mode, dtype=dtype, seed=0.5), a.double() @ b.double().T + 0.5)


def one_row(*products: float) -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.tensor([products], dtype=torch.float64)
    return a, torch.ones_like(a)


def test_one_mma_rounds_once() -> None:
    """The block's sum is exact before it meets the seed: fp32 steps would lose the two small products."""
    a, b = one_row(2.0**-24, 2.0**-24, *[0.0] * 14)
    assert contraction(a, b, "ordered", dtype=p.BF16, seed=1.0).item() == 1 + 2.0**-23
    assert contraction(a, b, "ordered", dtype=p.F32, seed=1.0).item() == 1
    assert contraction(a, b, "ordered", dtype=p.TF32, seed=1.0).item() == 1 + 2.0**-23


def test_blocks_follow_each_other() -> None:
    """One small product in each of two blocks: each is lost on its own."""
    a, b = one_row(2.0**-24, *[0.0] * 15, 2.0**-24, *[0.0] * 15)
    assert contraction(a, b, "ordered", dtype=p.BF16, seed=1.0).item() == 1
    assert contraction(a, b, "rounded", dtype=p.BF16, seed=1.0).item() == 1 + 2.0**-23


def test_parts_have_their_own_accumulators() -> None:
    """Without a seed of its own the second part keeps its small products and loses nothing until the parts meet."""
    a, b = one_row(*[0.0] * 16, 2.0**-24, *[0.0] * 15, 2.0**-24, *[0.0] * 15, *[0.0] * 16)
    halves = ContractOrder(block=16, slots=M16N8K16.slots, parts=2)
    assert contraction(a, b, "ordered", dtype=p.BF16, seed=1.0).item() == 1
    assert contraction(a, b, "ordered", dtype=p.BF16, seed=1.0, orders={"x": halves}).item() == 1
    tail, ones = one_row(*[0.0] * 32, 2.0**-24, *[0.0] * 15, 2.0**-24, *[0.0] * 15)
    assert contraction(tail, ones, "ordered", dtype=p.BF16, seed=1.0, orders={"x": halves}).item() == 1 + 2.0**-23
    assert contraction(tail, ones, "ordered", dtype=p.BF16, seed=1.0, orders={"y": halves}).item() == 1


def test_slots_are_added_in_their_order() -> None:
    """2^60 and -2^60 must meet before 1 is added: a double cannot hold their sum with 1."""
    a, b = one_row(2.0**60, 1.0, -(2.0**60), *[0.0] * 5)
    ascending = ContractOrder(block=8, slots=tuple(range(8)), parts=1)
    assert M16N8K8.slots[:2] == (0, 2)
    assert contraction(a, b, "ordered", dtype=p.TF32).item() == 1
    assert contraction(a, b, "ordered", dtype=p.TF32, orders={"x": ascending}).item() == 0


def test_fp32_operands_are_fused_one_element_at_a_time() -> None:
    a = torch.tensor([[1 + 2.0**-12, -1.0]])
    b = torch.tensor([[1 + 2.0**-12, 1 + 2.0**-11]])
    assert contraction(a, b, "ordered", dtype=p.F32).item() == 0
    assert contraction(a.flip(1), b.flip(1), "ordered", dtype=p.F32).item() == 2.0**-24


def test_a_sum_must_divide_into_its_blocks() -> None:
    a, b = one_row(*[1.0] * 12)
    with pytest.raises(InternalError, match="12 elements does not divide"):
        contraction(a, b, "ordered", dtype=p.BF16)


@all_modes
def test_contract_reads_transposed_and_shifted_operands(mode: Mode) -> None:
    x = torch.arange(32.0 * 2).reshape(32, 2)
    k, m, n = p.index("k", 16), p.index("m", 2), p.index("n", 2)
    whole = p.index("w", 32)
    load, tensor = loaded("x", x, whole, m, dtype=p.BF16)
    result = p.value("r", m, n)
    shifted = p.read(load.value, tile.Sub(index=k, offset=16), n)
    body = (load, p.contract(result, p.read(load.value, k, m), shifted, k))
    actual = run(*body, result=result, mode=mode, inputs={tensor: x})
    assert torch.equal(actual, (x[:16].T @ x[16:]).double())


# --------------------------------------------------------------------------- sums, scans, inverses


def reduced(x: torch.Tensor, op: tile.ReduceOp, over: tuple[Index, ...], kept: tuple[Index, ...], mode: Mode) -> Any:
    load, tensor = loaded("x", x, M, N)
    result = p.value("r", *kept)
    body = tile.Reduce(value=result, op=op, over=over, expr=p.read(load.value), text="r", span=p.SPAN)
    spread = p.value("spread", *kept, p.index("one", 1))
    return run(load, body, p.map_(spread, p.read(result)), result=spread, mode=mode, inputs={tensor: x}).squeeze(-1)


@all_modes
def test_reduce(mode: Mode) -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [-4.0, 5.0, 0.5]])
    assert reduced(x, tile.ReduceOp.SUM, (N,), (M,), mode).tolist() == [6, 1.5]
    assert reduced(x, tile.ReduceOp.SUM, (M,), (N,), mode).tolist() == [-3, 7, 3.5]
    assert reduced(x, tile.ReduceOp.MAX, (M,), (N,), mode).tolist() == [1, 5, 3]
    assert reduced(x, tile.ReduceOp.SUM, (M, N), (), mode).item() == 7.5


def test_ordered_sums_run_upwards_in_fp32() -> None:
    x = torch.tensor([[2.0**-24, 2.0**-24, 1.0], [1.0, 2.0**-24, 2.0**-24]])
    assert reduced(x, tile.ReduceOp.SUM, (N,), (M,), "ordered").tolist() == [1 + 2.0**-23, 1]
    assert reduced(x, tile.ReduceOp.SUM, (N,), (M,), "float64").tolist() == [1 + 2.0**-23] * 2


def test_parts_of_a_sum_are_added_low_to_high() -> None:
    """Two quarters of an ulp of 1 count together and, after rounding, each by itself not at all."""
    x = torch.tensor([[1.0, 0.0, 2.0**-24, 0.0, 2.0**-24, 0.0]])
    load, tensor = loaded("x", x, p.index("m", 1), p.index("n", 6))
    result = p.value("r", load.value.indices[0])
    body = tile.Reduce(
        value=result, op=tile.ReduceOp.SUM, over=load.value.indices[1:], expr=p.read(load.value), text="r", span=p.SPAN
    )

    def summed(*partials: tuple[int, ...], parts: int) -> float:
        orders = {"r": ReduceOrder(partials=partials, parts=parts)}
        return run(load, body, result=result, mode="ordered", inputs={tensor: x}, orders=orders).item()

    assert summed((0,), (1,), (2,), (3,), (4,), (5,), parts=3) == 1
    assert summed((2,), (3,), (4,), (5,), (0,), (1,), parts=3) == 1 + 2.0**-23


@pytest.mark.parametrize(
    ("op", "mode", "expected"),
    [
        (tile.ScanOp.CUMSUM, "float64", [[1, 1 + 2.0**-24, 1 + 2.0**-23], [2, 5, 9]]),
        (tile.ScanOp.CUMSUM, "ordered", [[1, 1, 1], [2, 5, 9]]),
        (tile.ScanOp.SUFFIX_SUM, "float64", [[1 + 2.0**-23, 2.0**-23, 2.0**-24], [9, 7, 4]]),
        (tile.ScanOp.SUFFIX_SUM, "ordered", [[1 + 2.0**-23, 2.0**-23, 2.0**-24], [9, 7, 4]]),
    ],
)
def test_scan(op: tile.ScanOp, mode: Mode, expected: list[list[float]]) -> None:
    x = torch.tensor([[1.0, 2.0**-24, 2.0**-24], [2.0, 3.0, 4.0]])
    load, tensor = loaded("x", x, M, N)
    result = p.value("r", M, N)
    scan = tile.Scan(value=result, op=op, along=N, expr=p.read(load.value), text="r", span=p.SPAN)
    assert run(load, scan, result=result, mode=mode, inputs={tensor: x}).tolist() == expected


def test_inverse_is_exact_and_reads_the_strictly_lower_part() -> None:
    i, j = p.index("i", 3), p.index("j", 3)
    x = torch.tensor([[torch.nan, torch.inf, 1.0], [2.0, 9.0, torch.nan], [3.0, 4.0, 7.0]])
    load, tensor = loaded("x", x, i, j)
    result = p.value("r", i, j)
    stmt = tile.Inverse(value=result, source=p.read(load.value), text="r", span=p.SPAN)
    for mode in ("float64", "rounded"):
        actual = run(load, stmt, result=result, mode=mode, inputs={tensor: x})
        assert actual.tolist() == [[1, 0, 0], [-2, 1, 0], [5, -4, 1]]
    with pytest.raises(InternalError, match="lower it before"):
        run(load, stmt, result=result, mode="ordered", inputs={tensor: x})


def test_diagonal_inverse_stacks_the_blocks_inverses() -> None:
    i, j, b = p.index("i", 32), p.index("j", 32), p.index("b", 16)
    x = torch.from_numpy(np.random.default_rng(RNG_SEED).standard_normal((32, 32)).astype(np.float32)) / 4
    load, tensor = loaded("x", x, i, j)
    result = p.value("r", i, b, dtype=p.TF32)
    stmt = tile.DiagonalInverse(value=result, source=p.read(load.value), text="r", span=p.SPAN)
    modes: tuple[Mode, ...] = ("float64", "rounded", "ordered")
    exact, rounded, ordered = (run(load, stmt, result=result, mode=m, inputs={tensor: x}) for m in modes)
    eye = torch.eye(16, dtype=torch.float64)
    for start in (0, 16):
        block = x[start : start + 16, start : start + 16].double().tril(-1) + eye
        torch.testing.assert_close(exact[start : start + 16] @ block, eye, rtol=0, atol=1e-12)
    blocks = np.stack([x[:16, :16].numpy(), x[16:, 16:].numpy()])
    bits = diagonal_inverse_16(blocks).reshape(32, 16).view(np.uint32)
    tf32 = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    assert np.array_equal(ordered.numpy(), tf32)
    torch.testing.assert_close(rounded, exact, rtol=2.0**-11, atol=0)
    assert not torch.equal(rounded, exact)


@all_modes
def test_concat_transposes_its_parts(mode: Mode) -> None:
    i, j, a = p.index("i", 4), p.index("j", 3), p.index("a", 2)
    parts = [p.value(f"x{r}", j, a) for r in range(2)]
    numbers = p.binary(p.binary(p.letter(j), "*", p.integer(10)), "+", p.letter(a))
    maps = [p.map_(part, p.cast(p.binary(numbers, "+", p.integer(100 * r)), p.F32)) for r, part in enumerate(parts)]
    result = p.value("r", i, j)
    concat = tile.Concat(value=result, parts=tuple(parts), text="r", span=p.SPAN)
    expected = [[0, 10, 20], [1, 11, 21], [100, 110, 120], [101, 111, 121]]
    assert run(*maps, concat, result=result, mode=mode).tolist() == expected


# --------------------------------------------------------------------------- control


def _count_to(n: int, one: tile.Expr, carried: Value, *body: tile.Stmt) -> tile.ForRange:
    inner, update = p.value("s_2", M), p.value("s_3", M)
    return tile.ForRange(
        name="r",
        begin=p.integer(1),
        end=p.integer(n),
        carried=(tile.Carry(init=p.value("s", M), inner=inner, update=update, result=carried),),
        body=(p.map_(update, p.binary(p.binary(p.read(inner), "*", p.const(2.0)), "+", one)), *body),
        text="for r",
        span=p.SPAN,
    )


@all_modes
@pytest.mark.parametrize(("end", "expected"), [(1, 5), (2, 11), (4, 51)])
def test_for_range_carries_values(end: int, expected: float, mode: Mode) -> None:
    """s = 5; s = 2 s + r for r in range(1, end)"""
    result = p.value("s_4", M)
    loop = _count_to(end, p.cast(p.coordinate("r"), p.F32), result)
    actual = run(p.map_(p.value("s", M), p.const(5.0)), loop, result=result, mode=mode)
    assert actual.tolist() == [expected] * 2


@all_modes
def test_carried_values_change_together(mode: Mode) -> None:
    """a, b = b, a three times: the update of one is the other's version at the top."""
    a, b = (tuple(p.value(f"{name}_{v}", M) for v in range(3)) for name in "ab")
    swap = (
        tile.Carry(init=a[0], inner=a[1], update=b[1], result=a[2]),
        tile.Carry(init=b[0], inner=b[1], update=a[1], result=b[2]),
    )
    loop = tile.ForRange(name="r", begin=p.integer(0), end=p.integer(3), carried=swap, body=(), text="for", span=p.SPAN)
    body = (p.map_(a[0], p.const(1.0)), p.map_(b[0], p.const(2.0)), loop)
    assert run(*body, result=a[2], mode=mode).tolist() == [2, 2]
    assert run(*body, result=b[2], mode=mode).tolist() == [1, 1]


@all_modes
@pytest.mark.parametrize(("flag", "expected"), [(True, 1), (False, 2)])
def test_if_merges_the_arm_taken(flag: bool, expected: float, mode: Mode) -> None:
    then, orelse, result = (p.value(name, M) for name in ("t", "e", "r"))
    branch = tile.If(
        cond=p.const(flag, p.BOOL),
        then=(p.map_(then, p.const(1.0)),),
        orelse=(p.map_(orelse, p.const(2.0)),),
        merges=(tile.Merge(then=then, orelse=orelse, result=result),),
        text="if",
        span=p.SPAN,
    )
    assert run(branch, result=result, mode=mode).tolist() == [expected] * 2
