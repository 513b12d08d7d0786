"""Windows, loads, stores and the arguments that they reach."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from loomgen.errors import InternalError
from loomgen.interp import Mode, interpret
from loomgen.ir import tile
from tests.interp import programs as p

all_modes = pytest.mark.parametrize("mode", ["float64", "rounded", "ordered"])

ROW = p.index("i", 4)
TOKENS = p.tensor("x", "T")


def shifted_copy(of: tile.Window, shift: int, out: tile.Tensor) -> tuple[tile.Stmt, ...]:
    """out[c[i]] = x[c[i + shift]]"""
    tile_value = p.value("xt", ROW)
    offset = p.binary(p.letter(ROW), "+", p.integer(shift))
    return (
        p.load(tile_value, TOKENS, p.within(of, offset)),
        p.store(out, tile_value, p.within(of, p.letter(ROW))),
    )


OUT = p.tensor("out", "T", access="out")
MET, PLACE = p.tensor("met", "NC", access="out"), p.tensor("place", "NC", dtype=p.I32, access="out")
X = torch.arange(1.0, 10.0)


def _counted(of: tile.Window, *, is_reversed: bool) -> tuple[tile.Stmt, ...]:
    """met[c] = how many iterations there were, this one included; place[c] = c.pos + c.len"""
    before, inner, update, after = (p.value(name) for name in ("t", "t_2", "t_3", "t_4"))
    end = p.value("end", dtype=p.I32)
    pos, length = (p.field(of, name) for name in (tile.WindowField.POS, tile.WindowField.LEN))
    body = (
        p.map_(update, p.binary(p.read(inner), "+", p.const(1.0))),
        p.store(MET, update, p.coordinate(of.name)),
        p.map_(end, p.binary(pos, "+", length)),
        p.store(PLACE, end, p.coordinate(of.name)),
    )
    carry = tile.Carry(init=before, inner=inner, update=update, result=after)
    loop = tile.ForWindow(window=of, carried=(carry,), body=body, text="for", span=p.SPAN, is_reversed=is_reversed)
    return (p.map_(before, p.const(0.0)), loop)


@all_modes
def test_a_loop_chunk_reads_its_sequence_and_stores_itself(mode: Mode) -> None:
    """Sequences [0, 6) and [6, 9): zeros come from outside of the sequence, never its neighbour."""
    n, c = p.window("n", tile.WindowKind.SEQUENCE), p.window("c", tile.WindowKind.CHUNK, 4, parent="n")
    for shift, expected in ((-1, [0, 1, 2, 3, 4, 5, 0, 7, 8]), (1, [2, 3, 4, 5, 6, 0, 8, 9, 0])):
        loop = tile.ForWindow(window=c, carried=(), body=shifted_copy(c, shift, OUT), text="for", span=p.SPAN)
        program = p.program(loop, tensors=(TOKENS, OUT), grid=(p.axis("n", "N", n),))
        out = torch.full((9,), -1.0)
        interpret(program, {"x": X, "out": out, "cu_seqlens": torch.tensor([0, 0, 6, 9])}, mode=mode)
        assert out.tolist() == expected


@all_modes
def test_the_last_chunk_comes_first(mode: Mode) -> None:
    """The order in which chunks are met, of sequences of 6, 0 and 3 tokens; the short last one is met first."""
    n, c = p.window("n", tile.WindowKind.SEQUENCE), p.window("c", tile.WindowKind.CHUNK, 4, parent="n")
    loop = tile.ForWindow(window=c, carried=(), body=shifted_copy(c, -1, OUT), text="for", span=p.SPAN)
    turned = _counted(c, is_reversed=True)
    program = p.program(*turned, loop, tensors=(TOKENS, OUT, MET, PLACE), grid=(p.axis("n", "N", n),))
    out, met, place = torch.full((9,), -1.0), torch.zeros(3), torch.zeros(3, dtype=torch.int32)
    tables = {"cu_seqlens": torch.tensor([0, 6, 6, 9]), "seq_chunk_start": torch.tensor([0, 2, 2, 3])}
    interpret(program, {"x": X, "out": out, "met": met, "place": place, **tables}, mode=mode)
    assert met.tolist() == [2, 1, 1]
    assert place.tolist() == [0 + 4, 4 + 2, 0 + 3]
    assert out.tolist() == [0, 1, 2, 3, 4, 5, 0, 7, 8]


@all_modes
def test_a_grid_chunk_knows_only_itself(mode: Mode) -> None:
    """Chunks [0, 4), [4, 6) and a surplus one of length 0, which does not run."""
    c = p.window("c", tile.WindowKind.CHUNK, 4)
    count = p.tensor("count", "NC", access="out")
    one = p.value("one")
    body = (*shifted_copy(c, 1, OUT), p.map_(one, p.const(1.0)), p.store(count, one, p.coordinate("c")))
    program = p.program(*body, tensors=(TOKENS, OUT, count), grid=(p.axis("c", "NC", c),))
    out, counted = torch.full((9,), -1.0), torch.zeros(3)
    tables = {"chunk_start": torch.tensor([0, 4, 6]), "chunk_len": torch.tensor([4, 2, 0])}
    interpret(program, {"x": X, "out": out, "count": counted, **tables}, mode=mode)
    assert out.tolist() == [2, 3, 4, 0, 6, 0, -1, -1, -1]
    assert counted.tolist() == [1, 1, 0]


@all_modes
def test_a_block_reads_its_whole_axis(mode: Mode) -> None:
    vb = p.window("vb", tile.WindowKind.BLOCK, 4)
    x, out = p.tensor("x", 8), p.tensor("out", 8, access="out")
    tile_value = p.value("xt", ROW)
    offset = p.binary(p.letter(ROW), "-", p.integer(1))
    body = (p.load(tile_value, x, p.within(vb, offset)), p.store(out, tile_value, p.within(vb, p.letter(ROW))))
    program = p.program(*body, tensors=(x, out), grid=(p.axis("vb", 2, vb),))
    written = torch.zeros(8)
    interpret(program, {"x": X[:8], "out": written}, mode=mode)
    assert written.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_grid_chunk_has_no_offset_in_its_sequence() -> None:
    c = p.window("c", tile.WindowKind.CHUNK, 4)
    position = p.value("at", dtype=p.I32)
    body = p.map_(position, p.field(c, tile.WindowField.POS))
    program = p.program(body, tensors=(), grid=(p.axis("c", "NC", c),))
    with pytest.raises(InternalError, match="in no table"):
        interpret(program, {"chunk_start": torch.tensor([0]), "chunk_len": torch.tensor([4])}, mode="float64")


@all_modes
def test_stores_round_and_keep_what_they_do_not_own(mode: Mode) -> None:
    """An inout bf16 tensor with a row stride: element 0 is doubled in place, padding and NaN are left alone."""
    pool = p.tensor("pool", 2, 2, dtype=p.BF16, access="inout")
    old, new = p.value("old", dtype=p.BF16), p.value("new", dtype=p.BF16)
    first = (p.integer(0), p.integer(0))
    doubled = p.cast(p.binary(p.cast(p.read(old), p.F32), "*", p.const(2.0)), p.BF16)
    program = p.program(p.load(old, pool, *first), p.map_(new, doubled), p.store(pool, new, *first), tensors=(pool,))
    storage = torch.full((2, 5), torch.nan, dtype=torch.bfloat16)
    storage[0, 0] = 1.5
    before = storage.view(torch.int16).clone()
    interpret(program, {"pool": storage[:, ::3]}, mode=mode)
    assert storage[0, 0] == 3
    assert torch.equal(storage.view(torch.int16).flatten()[1:], before.flatten()[1:])


def test_stores_into_narrower_tensors_round_in_every_mode() -> None:
    """0.1 + 2^-40 as bf16, and NaN stays NaN."""
    out = p.tensor("out", 2, access="out")
    i = p.index("i", 2)
    result = p.value("r", i)
    is_first = p.binary(p.letter(i), "==", p.integer(0))
    expr = p.select(is_first, p.const(0.1), p.binary(p.const(0.0), "/", p.const(0.0)))
    program = p.program(p.map_(result, expr), p.store(out, result, p.letter(i)), tensors=(out,))
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        written = torch.zeros(2, dtype=dtype)
        interpret(program, {"out": written}, mode="float64")
        assert written[0] == torch.tensor(0.1, dtype=dtype) and written[1].isnan()


def test_a_store_outside_the_tensor_is_an_error() -> None:
    out = p.tensor("out", 2, access="out")
    result = p.value("r", ROW)
    body = (p.map_(result, p.const(1.0)), p.store(out, result, p.letter(ROW)))
    with pytest.raises(IndexError, match=r"out, axis 0 of \(2,\)"):
        interpret(p.program(*body, tensors=(out,)), {"out": torch.zeros(2)}, mode="float64")


def test_grid_cells_run_for_every_coordinate() -> None:
    out = p.tensor("out", "H", 3, dtype=p.I32, access="out")
    result = p.value("r", dtype=p.I32)
    number = p.binary(p.binary(p.coordinate("h"), "*", p.integer(10)), "+", p.coordinate("m"))
    body = (p.map_(result, number), p.store(out, result, p.coordinate("h"), p.coordinate("m")))
    written = torch.zeros(2, 3, dtype=torch.int32)
    program = p.program(*body, tensors=(out,), grid=(p.axis("h", "H"), p.axis("m", 3)))
    interpret(program, {"out": written}, mode="ordered")
    assert written.tolist() == [[0, 1, 2], [10, 11, 12]]


def _doubling() -> tile.Program:
    n = p.window("n", tile.WindowKind.SEQUENCE)
    value = p.value("r")
    out = p.tensor("out", "T", "N", access="out")
    body = (p.map_(value, p.scalar("s")), p.store(out, value, p.integer(0), p.coordinate("n")))
    return p.program(*body, tensors=(out,), scalars={"s": p.F32}, grid=(p.axis("n", "N", n),))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"out": None}, "out is None: want a tensor"),
        ({"out": torch.zeros(2)}, "out has shape"),
        ({"out": torch.zeros(1, 2, dtype=torch.int32)}, "out is torch.int32: declared f32"),
        ({"out": torch.zeros(1, 2, dtype=torch.complex64)}, "of a type of the language"),
        ({"out": torch.zeros(1, 3)}, "cu_seqlens: N is 2 here and 3 elsewhere"),
        ({"T": 4}, "out: T is 1 here and 4 elsewhere"),
        ({"s": None}, "scalar s is missing"),
        ({"cu_seqlens": torch.zeros(3)}, "cu_seqlens is not a one-dimensional tensor of integers"),
    ],
)
def test_arguments_that_do_not_fit_are_named(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"out": torch.zeros(1, 2), "s": 1.0, "cu_seqlens": torch.tensor([0, 1, 1])}
    interpret(_doubling(), arguments, mode="float64")
    with pytest.raises(ValueError, match=message):
        interpret(_doubling(), {**arguments, **change}, mode="float64")


def test_a_missing_tensor_and_an_unknown_grid_are_named() -> None:
    with pytest.raises(ValueError, match="tensor out is missing"):
        interpret(_doubling(), {}, mode="float64")
    program = p.program(tensors=(), grid=(p.axis("h", "H"),))
    with pytest.raises(ValueError, match="size of H"):
        interpret(program, {}, mode="float64")
    interpret(program, {"H": 2}, mode="float64")
