"""The run on a card, as far as it goes without one: its inputs, and what it says where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from loomgen import golden
from loomgen.bench.timing import Spread
from loomgen.ops.arguments import Arguments
from loomgen.verify import OpCase, same_bits
from tools.gpu_evidence import Row, line
from tools.gpu_operator import EXACT, host_time
from tools.operator_calls import EXACT_SCALE, make_call, make_exact_call, moved, same

CPU = torch.device("cpu")
SMALL = OpCase(name="small", lengths=(0, 9, 65), head_dim=64, normalise=False)


def test_tensors_keep_their_strides_and_their_neighbours() -> None:
    given = make_call(replace(SMALL, views=True)).tensors
    found = moved(given, CPU)
    for name in ("q", "k", "v", "g", "beta", "initial_state", "cu_seqlens"):
        x, y = given[name], found[name]
        assert x is not None and y is not None
        assert (x.stride(), x.dtype) == (y.stride(), y.dtype) and torch.equal(x, y) and x.data_ptr() != y.data_ptr()
    q, v = found["q"], found["v"]
    assert q is not None and v is not None
    assert v.data_ptr() - q.data_ptr() == 2 * 64 * 2, "q, k and v lie in one buffer"
    assert moved({"g": None}, CPU) == {"g": None}


@pytest.mark.parametrize("raw", [None, torch.bfloat16])
def test_the_operator_s_arguments_are_those_of_the_call(
    raw: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = make_exact_call if raw is None else make_call
    call = make(replace(SMALL, raw_gates=raw, raw_steps=raw, negative=raw is not None)).on(CPU)
    seen: list[Arguments] = []

    def run(arguments: Arguments, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(arguments)
        return arguments.q, arguments.q

    monkeypatch.setattr("loomgen.ops.chunk._run", run)
    call.run()
    for name, x in call.arguments()._asdict().items():
        y = getattr(seen[0], name)
        assert x is y or x == y, name


@pytest.mark.parametrize("case", [replace(case, lengths=(9, 70)) for case in EXACT], ids=lambda case: case.name)
def test_exact_inputs_give_what_the_recurrence_gives_bit_for_bit(case: OpCase) -> None:
    call = make_exact_call(case)
    o, final = call.run(backend="emulate:sm_90a")
    given = call.tensors
    exact_o, exact_final = exactly(call.case, given)
    assert same_bits(o, exact_o.to(o.dtype)) and o.any()
    assert same_bits(final.contiguous(), exact_final.to(final.dtype).contiguous())


def exactly(case: OpCase, given: dict[str, torch.Tensor | None]) -> tuple[torch.Tensor, torch.Tensor]:
    return golden.recurrent_gated_delta_rule(
        **given,  # type: ignore[arg-type]
        scale=EXACT_SCALE,
        state_v_first=case.state_v_first,
    )


def test_one_bit_is_a_difference() -> None:
    x = torch.ones(3)
    y = x.clone()
    assert same((x, x), (x, y))
    y[0] = 1.0000001
    assert not same((x, x), (x, y))


def test_a_row_says_what_was_measured() -> None:
    row = Row(check="graph", case="small", measured={"different": 2, "of": 3}, bound=0, ok=False)
    assert line(row).split() == ["graph", "small", "different", "2,", "of", "3", "FAILED"]


def test_the_least_median_is_held_to_the_limit() -> None:
    call = make_call(replace(SMALL, packed=False, lengths=(9,)))
    row = host_time(call, Spread(90.0, 81.0, 100.0))
    assert (row.ok, row.measured) == (False, {"median_us": 81.0, "middle_us": 90.0, "largest_us": 100.0})
    assert host_time(call, Spread(90.0, 79.0, 100.0)).ok
