"""The pipeline: its order, its contract, and that a pass that goes wrong is caught and named."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from loomgen.errors import InternalError
from loomgen.ir import plan, walk
from loomgen.ir.tile import Load
from loomgen.passes import pipeline
from loomgen.passes.pipeline import PASSES, InCode, LaidOut, Planned, Tiled, lower, steps
from loomgen.target import SM_90A, SM_100A, SM_103A
from tests.passes.gdn import STAGES, kernel, lowered

FOLDER = Path(pipeline.__file__).parent


def test_the_passes_in_order() -> None:
    assert [step.name for step in PASSES] == [
        "drop_unused",
        "lower_inverse",
        "fuse_maps",
        "select",
        "group_copies",
        "connect_roles",
        "allocate",
        "synchronise",
        "lower",
        "prune",
    ]


def test_each_pass_has_its_file_that_says_what_holds() -> None:
    for step in PASSES:
        path = FOLDER / step.name / "__init__.py" if step.name == "lower" else FOLDER / f"{step.name}.py"
        text = path.read_text(encoding="utf-8")
        assert re.search(r"Before: .*After: ", text.split('"""')[1], re.DOTALL), step.name


def test_the_steps_hand_on_more_and_more() -> None:
    states = dict(steps(kernel("fwd_o"), SM_100A))
    kinds = {name: type(state) for name, state in states.items()}
    assert kinds == {
        "spec": Tiled,
        "drop_unused": Tiled,
        "lower_inverse": Tiled,
        "fuse_maps": Tiled,
        "select": Planned,
        "group_copies": Planned,
        "connect_roles": Planned,
        "allocate": LaidOut,
        "synchronise": LaidOut,
        "lower": InCode,
        "prune": InCode,
    }


@pytest.mark.parametrize("stage", STAGES)
def test_lowering_is_a_function_of_the_kernel_and_the_same_for_each_target(stage: str) -> None:
    for target in (SM_90A, SM_100A, SM_103A):
        assert lower(kernel(stage), target).device == lowered(stage).device


def test_what_a_lowered_kernel_says_agrees_with_itself() -> None:
    whole = lowered("fwd_h")
    assert whole.launch.threads == whole.plan.team.threads == whole.device.threads == 128
    assert whole.launch.min_blocks == whole.device.min_blocks == 2
    assert whole.launch.shared_bytes == whole.layout.n_bytes
    assert whole.launch.grid == ("N", "HV", 4)
    assert [argument.name for argument in whole.arguments] == [p.name for p in whole.device.parameters]
    assert whole.orders.keys() == {"x_mm", "vn", "S_5"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("fuse_maps", "internal error in fuse_maps: S_2[e,d]:f32 is not defined here"),
        ("group_copies", "internal error in group_copies: Sb is read before it is written"),
        ("synchronise", "internal error in synchronise: "),
    ],
)
def test_a_pass_that_goes_wrong_is_named(name: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass is made to lose operations; its own verifier says so."""

    def lose(state: Tiled) -> Tiled:
        made: Tiled = next(step for step in PASSES if step.name == name).run(state)
        if isinstance(made, Planned):
            return replace(made, plan=_without(made.plan, plan.Barrier if name == "synchronise" else plan.MapFragment))
        body = walk.map_blocks(made.program.body, lambda block: tuple(s for s in block if not isinstance(s, Load)))
        return replace(made, program=replace(made.program, body=body))

    passes = tuple(replace(step, run=lose) if step.name == name else step for step in PASSES)
    monkeypatch.setattr(sys.modules["loomgen.passes.pipeline"], "PASSES", passes)
    with pytest.raises(InternalError, match=re.escape(shown)):
        lower(kernel("fwd_h"), SM_100A)


def _without(whole: plan.Plan, kind: type[plan.PlanOp]) -> plan.Plan:
    body = tuple(
        replace(op, body=tuple(inner for inner in op.body if not isinstance(inner, kind)))
        if isinstance(op, plan.ChunkLoop)
        else op
        for op in whole.body
    )
    return replace(whole, body=body)


def test_lowering_is_quick_enough_to_be_done_often() -> None:
    start = time.perf_counter()
    for stage in STAGES:
        lower(kernel(stage), SM_100A)
    assert time.perf_counter() - start < 10
