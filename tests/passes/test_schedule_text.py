"""The whole schedule as text: exact, and the same kernel when it is pasted back into its spec."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loomgen.emit.cuda import emit_body
from loomgen.ir.kernel import KernelSpec, Launch
from loomgen.ir.plan import CopyOut, StoreDirect
from loomgen.passes.pipeline import lower
from loomgen.passes.schedule_text import schedule_text
from loomgen.passes.trace import leaves
from loomgen.spec import load
from loomgen.target import SM_100A
from tests.passes.gdn import ALL_STAGES, ROOT, STAGES, kernel

WHOSE = re.compile(r"^# .*\n")
SECTION = re.compile(r"^schedule:.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def spec_path(stage: str) -> Path:
    (path,) = (ROOT / "specs").rglob(f"{stage}.yaml")
    return path


def paste(stage: str, schedule: str, folder: Path) -> Path:
    """The stage's spec with another schedule."""
    pasted, count = SECTION.subn(schedule + "\n", spec_path(stage).read_text())
    assert count == 1
    path = folder / f"{stage}.yaml"
    path.write_text(pasted)
    return path


def test_the_whole_schedule_of_the_scan() -> None:
    assert schedule_text(kernel("fwd_h"), SM_100A) == (
        f"# the whole schedule of {kernel('fwd_h').name}\n"
        "schedule:\n"
        "  # 4 warps: what rows and split come to\n"
        "  rows: [e]\n"
        "  split: {d: {parts: 2, across: KS}}\n"
        "  rings: {vc: 2, kc: 2, Ac: 2, g: 2, s: 2}\n"
        "  place: {S: registers, vc: shared, kc: shared, Ac: shared, Sb: registers, x: registers, h: shared,\n"
        "    v_new: shared, ht: direct}\n"
        "  min_blocks: 2\n"
    )


def test_the_whole_schedule_of_a_stage_without_products() -> None:
    assert schedule_text(kernel("prep"), SM_100A) == (
        f"# the whole schedule of {kernel('prep').name}\n"
        "schedule:\n"
        "  warps: 16\n"
        "  vector: 8\n"
        "  place: {qc: registers, qn: direct, kc: registers, kn: direct}\n"
        "  min_blocks: 3\n"
    )


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_pasted_back_from_any_kernel_it_gives_the_same_kernels(stage: str, tmp_path: Path) -> None:
    kernels = load([spec_path(stage)], ROOT)
    wanted = [body_and_launch(spec) for spec in kernels]
    for schedule in {WHOSE.sub("", schedule_text(spec, SM_100A)) for spec in kernels}:
        pasted = load([paste(stage, schedule, tmp_path)], tmp_path)
        assert [body_and_launch(spec) for spec in pasted] == wanted


def body_and_launch(spec: KernelSpec) -> tuple[str, Launch]:
    found = lower(spec, SM_100A)
    return emit_body(found), found.launch


@pytest.mark.parametrize("stage", STAGES)
def test_nothing_is_left_to_infer(stage: str, tmp_path: Path) -> None:
    """The text of the pasted schedule is itself."""
    text = schedule_text(kernel(stage), SM_100A)
    assert schedule_text(load([paste(stage, text, tmp_path)], tmp_path)[0], SM_100A) == text


def test_an_inferred_place_can_be_overridden(tmp_path: Path) -> None:
    text, count = re.subn(r"\bo:\s+shared", "o: direct", schedule_text(kernel("fwd_o"), SM_100A))
    assert count == 1
    path = paste("fwd_o", text, tmp_path)
    plan = lower(load([path], tmp_path)[0], SM_100A).plan
    stores = [leaf for op in plan.body for leaf in leaves(op) if isinstance(leaf, CopyOut | StoreDirect)]
    assert [type(store) for store in stores] == [StoreDirect]
