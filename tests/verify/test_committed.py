"""What the committed kernels promise in the emulator: the same bits always, no bank conflicts, in reasonable time."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Literal

import pytest
import torch

from loomgen.emulator import EmulatorOptions
from loomgen.emulator.stage import emulated_stage
from loomgen.verify import same_bits
from tests.verify.committed import ROOT, compiled, entry, problem, run

STAGES = ("prep", "wy", "fwd_h", "fwd_o")
PRODUCT_STAGES = STAGES[1:]
SEEDS = range(20)
MAX_SECONDS = 60.0


@pytest.mark.parametrize("completion", ["late", "random"])
@pytest.mark.parametrize("stage", STAGES)
def test_no_choice_of_the_hardware_changes_a_bit(stage: str, completion: Literal["late", "random"]) -> None:
    """A ragged pack with gates down to -316; the order of blocks and threads is the seed's."""
    kernel, inputs = compiled(stage), problem()
    expected, _ = run(kernel, inputs)
    assert all(torch.isfinite(tensor).all() for tensor in expected.values())
    for seed in SEEDS:
        results, _ = run(kernel, inputs, EmulatorOptions(seed=seed, completion=completion))
        differing = [name for name, tensor in results.items() if not same_bits(tensor, expected[name])]
        assert differing == [], seed


@pytest.mark.parametrize("stage", STAGES)
def test_shared_memory_is_accessed_without_bank_conflicts(stage: str) -> None:
    kernel = compiled(stage)
    _, report = run(kernel, problem((257, 15), (1, 1)))
    lines = kernel.kernel.source.splitlines()
    conflicts = {lines[line - 1].strip(): use.conflicts for line, use in report.banks.items() if use.conflicts}
    assert conflicts == {}
    assert sum(use.accesses for use in report.banks.values()) > 0
    used = {primitive for calls in report.primitives.values() for primitive in calls}
    assert "cp_async_4" in used
    assert stage == "prep" or {"cp_async_16", "ldmatrix", "stmatrix", "ld_shared", "mma"} <= used


def test_without_its_swizzle_a_kernel_has_bank_conflicts(tmp_path: Path) -> None:
    """The count above can be other than zero."""
    kernel = compiled("fwd_o")
    plain = tmp_path / "plain.cu"
    plain.write_text(kernel.kernel.source.replace("K, K, 3>", "K, K, 0>"))
    expected, _ = run(kernel, problem((64,), (1, 1)))
    results, report = run(emulated_stage(entry("fwd_o"), ROOT, source=plain), problem((64,), (1, 1)))
    assert report.conflicts > 1000
    assert same_bits(results["o"], expected["o"])


def test_every_output_is_written_whole() -> None:
    for stage in STAGES:
        _, report = run(compiled(stage), problem())
        assert report.unwritten == {}, stage


@pytest.mark.parametrize(("stage", "output"), [("wy", "A"), ("fwd_o", "o")])
def test_a_sequence_sees_nothing_of_its_neighbours(stage: str, output: str) -> None:
    """A sequence of 65 tokens alone, and between others that are NaN throughout."""
    alone, packed = problem((65,)), problem((64, 65, 15))
    lonely = {**alone.given, **alone.rounded()}
    given = {**packed.given, **packed.rounded()}
    for name, tensor in given.items():
        if name in ("tail", "A_log", "dt_bias", "dA_log", "ddt_bias"):  # neither stage reads them
            continue
        own = lonely[name]
        tokens = {144: slice(64, 129), 4: slice(1, 3)}  # of the pack's tokens, of its chunks
        if isinstance(tensor, torch.Tensor) and isinstance(own, torch.Tensor) and tensor.is_floating_point():
            neighbours = torch.full_like(tensor, float("nan"))
            neighbours[tokens.get(len(tensor), slice(1, 2))] = own
            given[name] = neighbours
    kernel = compiled(stage)
    expected, _ = run(kernel, alone)
    results = packed.fresh(expected)
    kernel.run({**given, **results})
    assert same_bits(results[output][64:129], expected[output])


def test_half_a_thousand_tokens_take_less_than_a_minute() -> None:
    kernels, inputs = [compiled(stage) for stage in STAGES], problem((512,))
    begin = perf_counter()
    for kernel in kernels:
        run(kernel, inputs)
    assert perf_counter() - begin < MAX_SECONDS
