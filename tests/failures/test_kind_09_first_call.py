"""Kind 9, the first call in a training step: elsewhere it compiled for 45 s a stage, and again for each count of
sequences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loomgen.verify import OpCase
from tests.failures.emulated import Card, make_call

FIRST = OpCase(name="first", lengths=(64,), heads=(1, 1), head_dim=64)
START = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "start.h200.json"


def symbols_of(card: Card) -> set[str]:
    return {launch.symbol for launch in card.driver.launches}


@pytest.mark.parametrize("on_device", [False, True])
def test_nothing_is_built_or_loaded_after_the_forward_of_the_first_call(on_device: bool) -> None:
    card = Card()
    card.run(make_call(FIRST, 0), on_device=on_device)
    loaded = list(card.driver.loads)
    ran = symbols_of(card)
    for lengths in ((5, 0, 70), (1,) * 70, (3,) * 90):
        card.run(make_call(replace(FIRST, lengths=lengths), 0), on_device=on_device)
    for save in ("minimal", "states"):
        card.run(make_call(replace(FIRST, lengths=(7,) * 30, heads=(1, 2)), 0), on_device=on_device, save=save)
    assert symbols_of(card) > ran, "other counts of sequences run other variants of the scans"
    assert len(card.cubins.asked) == 1, "one build, of all kernels at once"
    assert card.driver.loads == loaded


def test_the_backward_finds_its_kernels_loaded() -> None:
    card = Card()
    call = make_call(FIRST, 0)
    card.run(call)
    (_, asked), *others = card.cubins.asked
    assert others == [] and {name.split("__")[0] for name in asked} == {
        *("prep", "wy", "fwd_h", "fwd_o", "dv_local", "dhu", "chunk_grads")
    }


def test_a_warm_call_makes_no_plan() -> None:
    card = Card()
    card.run(make_call(FIRST, 0))
    plans = len(card.forward._plans), len(card.backward._plans)
    card.run(make_call(FIRST, 1))
    assert (len(card.forward._plans), len(card.backward._plans)) == plans == (1, 1)


def test_cubins_that_were_built_before_start_within_a_second() -> None:
    rows = json.loads(START.read_text())["rows"]
    bundled = next(row for row in rows if row["case"] == "bundled cubins, no compiler")
    assert bundled["measured"]["largest_seconds"] < 1.0
