"""The whole schedule as text: exact, and the same kernel when it is pasted back into its spec."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loomgen.ir.plan import CopyOut, StoreDirect
from loomgen.passes.pipeline import lower
from loomgen.passes.schedule_text import schedule_text
from loomgen.passes.trace import leaves
from loomgen.spec import load
from loomgen.target import SM_100A
from tests.passes.gdn import ROOT, STAGES, kernel, lowered

SECTION = re.compile(r"^schedule:.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def paste(stage: str, schedule: str, folder: Path) -> Path:
    """The stage's spec with another schedule, and without the variant names that only the old one used."""
    spec = (ROOT / "specs" / "gdn" / f"{stage}.yaml").read_text()
    pasted, count = SECTION.subn(schedule + "\n", spec)
    assert count == 1
    path = folder / f"{stage}.yaml"
    path.write_text(re.sub(r", KS: \d+}", "}", pasted))
    return path


def test_the_whole_schedule_of_the_scan() -> None:
    assert schedule_text(kernel("fwd_h"), SM_100A) == (
        f"# the whole schedule of {kernel('fwd_h').name}\n"
        "schedule:\n"
        "  warps: 4\n"
        "  rows: [e]\n"
        "  split: {d: {parts: 2, across: 2}}\n"
        "  rings: {wc: 2, uc: 2, kc: 2, g: 2}\n"
        "  place: {S: registers, wc: shared, uc: shared, kc: shared, Sb: registers, h: shared, x: registers,\n"
        "    v_new: shared, ht: direct}\n"
        "  min_blocks: 2\n"
    )


def test_the_whole_schedule_of_a_stage_without_products() -> None:
    assert schedule_text(kernel("prep"), SM_100A) == (
        f"# the whole schedule of {kernel('prep').name}\n"
        "schedule:\n"
        "  warps: 8\n"
        "  vector: 8\n"
        "  place: {qc: registers, kc: registers, qn: direct, kn: direct}\n"
        "  min_blocks: 2\n"
    )


@pytest.mark.parametrize("stage", [*STAGES, "prep"])
def test_pasted_back_it_gives_the_same_kernel(stage: str, tmp_path: Path) -> None:
    path = paste(stage, schedule_text(kernel(stage), SM_100A), tmp_path)
    again = lower(load([path], tmp_path)[0], SM_100A)
    assert again.device == lowered(stage).device
    assert again.launch == lowered(stage).launch


@pytest.mark.parametrize("stage", STAGES)
def test_nothing_is_left_to_infer(stage: str, tmp_path: Path) -> None:
    """The text of the pasted schedule is itself."""
    text = schedule_text(kernel(stage), SM_100A)
    assert schedule_text(load([paste(stage, text, tmp_path)], tmp_path)[0], SM_100A) == text


def test_an_inferred_place_can_be_overridden(tmp_path: Path) -> None:
    text = schedule_text(kernel("fwd_o"), SM_100A)
    assert "o: shared" in text
    path = paste("fwd_o", text.replace("o: shared", "o: direct"), tmp_path)
    plan = lower(load([path], tmp_path)[0], SM_100A).plan
    stores = [leaf for op in plan.body for leaf in leaves(op) if isinstance(leaf, CopyOut | StoreDirect)]
    assert [type(store) for store in stores] == [StoreDirect]
