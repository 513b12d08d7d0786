"""Running a registry's kernel on tensors: binding, memory with gaps, errors before the launch."""

from __future__ import annotations

import pytest
import torch

from loomgen.emulator.stage import emulated_stage
from loomgen.verify import same_bits
from tests.verify.committed import ROOT, compiled, entry, problem, run

STAGE = "fwd_h"
ONE = (20,)
HEADS = (1, 1)


def test_outputs_are_written_in_place_and_only_where_they_belong() -> None:
    results, report = run(compiled(STAGE), problem(ONE, HEADS))
    assert {name: bool(torch.isfinite(tensor).all()) for name, tensor in results.items()} == {
        "h": True,
        "v_new": True,
        "ht": True,
    }
    assert report.unwritten == {}


def test_a_strided_tensor_is_read_where_it_lies() -> None:
    """h0 of a larger pool, keys before values, with NaN in between."""
    inputs = problem(ONE, HEADS)
    expected, _ = run(compiled(STAGE), inputs)
    h0 = inputs.given["h0"]
    assert isinstance(h0, torch.Tensor)
    pool = torch.full((1, 2, 128, 130), float("nan"))
    view = pool[:, 1:, :, :128].transpose(-1, -2)
    view.copy_(h0)
    results = inputs.fresh(expected)
    compiled(STAGE).run({**inputs.given, **inputs.rounded(), **results, "h0": view})
    assert all(same_bits(results[name], expected[name]) for name in expected)


def test_an_optional_output_may_be_left_out() -> None:
    inputs = problem(ONE, HEADS)
    expected, _ = run(compiled(STAGE), inputs)
    results = inputs.fresh(["h", "v_new"])
    compiled(STAGE).run({**inputs.given, **inputs.rounded(), **results, "ht": None})
    assert all(same_bits(results[name], expected[name]) for name in results)


def test_a_wrong_tensor_is_named_before_anything_runs() -> None:
    inputs = problem(ONE, HEADS)
    results = inputs.fresh(["h", "v_new", "ht"])
    given = {**inputs.given, **inputs.rounded(), **results, "v": torch.zeros(20, 1, 128)}
    with pytest.raises(ValueError, match=r"^v: torch.float32, expected a tensor of bf16$"):
        compiled(STAGE).run(given)
    assert torch.isnan(results["h"]).all()


def test_no_tokens_are_no_work() -> None:
    """Empty sequences keep their start state as the final state."""
    inputs = problem((0, 0), HEADS)
    results, _ = run(compiled(STAGE), inputs)
    h0 = inputs.given["h0"]
    assert isinstance(h0, torch.Tensor)
    assert same_bits(results["ht"], h0)


def test_the_committed_source_may_be_replaced(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("changed") / "changed.cu"
    path.write_text(
        compiled(STAGE).kernel.source.replace("for (int c_it = 0; c_it < c_count;", "for (int c_it = 0; c_it < 0;")
    )
    inputs = problem(ONE, HEADS)
    results, _ = run(emulated_stage(entry(STAGE), ROOT, source=path), inputs)
    h0 = inputs.given["h0"]
    assert isinstance(h0, torch.Tensor)
    assert same_bits(results["ht"], h0), "without its loop the scan ends where it started"
