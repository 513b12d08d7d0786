"""Resources: what does not fit a target is an error of the spec, with what takes most."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loomgen.errors import Diagnostic, SpecError
from loomgen.ir.plan import SharedLayout, Team
from loomgen.passes.pipeline import lower
from loomgen.passes.resources import check_resources
from loomgen.target import SM_90A, SM_100A, Target
from tests.passes.gdn import ALL_STAGES, kernel, lowered


def rejected(stage: str, target: Target = SM_90A, min_blocks: int = 1, team: Team | None = None) -> Diagnostic:
    spec = kernel(stage)
    spec = replace(spec, schedule=replace(spec.schedule, min_blocks=min_blocks))
    with pytest.raises(SpecError) as caught:
        check_resources(spec, target, team or lowered(stage).plan.team, lowered(stage).layout)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_the_kernels_fit(stage: str) -> None:
    check_resources(kernel(stage), SM_100A, lowered(stage).plan.team, lowered(stage).layout)


def test_a_kernel_fits_exactly_and_not_a_byte_more() -> None:
    n_bytes = lowered("wy").layout.n_bytes
    fits = replace(SM_90A, max_shared_bytes_per_block=n_bytes)
    check_resources(kernel("wy"), fits, lowered("wy").plan.team, lowered("wy").layout)
    assert rejected("wy", replace(fits, max_shared_bytes_per_block=n_bytes - 1)).code == "LG110"


def test_too_much_shared_memory_names_the_largest_buffers() -> None:
    found = rejected("fwd_h", replace(SM_90A, max_shared_bytes_per_block=48 * 1024))
    assert found.message == "a block needs 85 KiB of shared memory and has at most 48 KiB"
    assert found.hint == "largest: kc 32 KiB (2 slots), Ac 16 KiB (2 slots), x_mm_parts 16 KiB, Sb_out 8 KiB"
    assert found.span == kernel("fwd_h").schedule.span("rings")
    assert found.span.path == "specs/gdn/fwd_h.yaml"
    assert found.chain == (f"in {kernel('fwd_h').name}, for sm_90a",)


def test_too_many_threads() -> None:
    found = rejected("fwd_h", team=Team(slabs=17, parts=2))
    assert found.span == kernel("fwd_h").schedule.span("rows")
    assert found.message == "34 warps are 1088 threads; a block has at most 1024"


def test_min_blocks_fit_on_an_sm_together() -> None:
    found = rejected("fwd_h", min_blocks=3)
    assert found.message == "min_blocks: 3, but 2 blocks of 128 threads and 85 KiB of shared memory fit on an SM"


def test_a_kernel_without_shared_memory_is_limited_by_threads() -> None:
    spec = replace(kernel("wy"), schedule=replace(kernel("wy").schedule, min_blocks=3))
    with pytest.raises(SpecError, match="min_blocks: 3, but 2 blocks of 1024 threads"):
        check_resources(spec, SM_90A, Team(slabs=32, parts=1), SharedLayout(offsets=(), n_bytes=0))


def test_the_pipeline_refuses_what_does_not_fit() -> None:
    small = replace(SM_90A, max_shared_bytes_per_block=16 * 1024)
    with pytest.raises(SpecError, match="LG110: a block needs"):
        lower(kernel("wy"), small)
