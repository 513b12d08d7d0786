"""Which kernels a call runs, and that no kernel of the registry is beyond its reach."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from loomgen.errors import LoomgenError
from loomgen.ops import dispatch_backward
from loomgen.ops.dispatch import (
    ACTIVATIONS,
    FAMILY,
    GATES,
    HEAD_DIMS,
    KEPT_LENGTHS,
    RAW,
    RECOMPUTE,
    SLACK,
    STAGES,
    STEPS,
    TABLES,
    CallShape,
    scan_variant,
    select,
    select_recompute,
)
from loomgen.ops.dispatch_backward import GATE_GRADIENTS, select_backward
from loomgen.ops.library import registry_of
from loomgen.registry import Registry
from loomgen.target import TARGETS

SEQUENCES = (1, 2, 4, 64)
HEADS = (16, 18)
"""Of 16 heads: few enough for the first variant, some for the second at each head dim, many."""


def shape(
    n_sequences: int = 1,
    value_heads: int = 16,
    head_dim: int = 128,
    activation: torch.dtype = torch.bfloat16,
    step: torch.dtype = torch.float32,
) -> CallShape:
    return CallShape(
        n_sequences=n_sequences, value_heads=value_heads, head_dim=head_dim, activation=activation, step=step
    )


def stages(registry: Registry) -> set[str]:
    return {entry.name for entry in registry.kernels if entry.family == FAMILY and entry.stage in STAGES}


@pytest.mark.parametrize("arch", [target.name for target in TARGETS])
def test_every_kernel_of_the_stages_is_reached_by_some_call(arch: str) -> None:
    registry = registry_of(arch)
    reached = {
        entry.name
        for n, heads, dim, activation, step in product(SEQUENCES, HEADS, HEAD_DIMS, ACTIVATIONS, STEPS)
        for entry in select(registry, shape(n, heads, dim, activation, step)).in_order()
    }
    assert reached == stages(registry)
    assert len(reached) >= 28


def test_every_kernel_of_the_family_is_of_a_stage_that_is_dispatched() -> None:
    stages_of_the_family = {entry.stage for entry in registry_of("sm_90a").kernels if entry.family == FAMILY}
    assert stages_of_the_family == {
        *STAGES, RECOMPUTE, TABLES, SLACK, GATES, *dispatch_backward.STAGES, *GATE_GRADIENTS,
    }  # fmt: skip


@pytest.mark.parametrize("arch", [target.name for target in TARGETS])
def test_every_kernel_for_lengths_on_the_device_is_reached(arch: str) -> None:
    registry = registry_of(arch)
    reached = set()
    for dim, activation, offsets in product(HEAD_DIMS, ACTIVATIONS, (torch.int32, torch.int64)):
        kernels = select(registry, replace(shape(1, 16, dim, activation, torch.float32), offsets=offsets))
        assert [kernel.stage for kernel in kernels.in_order()] == [TABLES, *STAGES, SLACK]
        reached |= {kernel.name for kernel in (kernels.meta, kernels.slack) if kernel is not None}
    assert reached == {entry.name for entry in registry.kernels if entry.stage in (TABLES, SLACK)}


@pytest.mark.parametrize("arch", [target.name for target in TARGETS])
def test_every_kernel_of_raw_gates_and_steps_is_reached(arch: str) -> None:
    registry = registry_of(arch)
    reached = set()
    for gate, step, offsets in product((None, *RAW), (None, *RAW), (None, torch.int32)):
        raw = replace(shape(), raw_gate=gate, raw_step=step, offsets=offsets)
        kernels, gradients = select(registry, raw), select_backward(registry, raw, has_states=True)
        stages = [kernel.stage for kernel in kernels.in_order() if kernel.stage not in (TABLES, SLACK)]
        is_raw = gate is not None or step is not None
        assert stages == [*([GATES] if is_raw else []), *STAGES]
        assert (gradients.gate_grads is not None, gradients.gate_sums is not None) == (is_raw, gate is not None)
        of_call = (kernels.gates, gradients.gate_grads, gradients.gate_sums)
        reached |= {kernel.name for kernel in of_call if kernel is not None}
    assert reached == {entry.name for entry in registry.kernels if entry.stage in (GATES, *GATE_GRADIENTS)}


@pytest.mark.parametrize("arch", [target.name for target in TARGETS])
def test_every_kernel_of_the_backward_is_reached(arch: str) -> None:
    registry = registry_of(arch)
    reached = {
        entry.name
        for n, heads, dim, activation in product(SEQUENCES, HEADS, HEAD_DIMS, ACTIVATIONS)
        for entry in select_backward(registry, shape(n, heads, dim, activation), has_states=True).in_order()
    }
    assert reached == {entry.name for entry in registry.kernels if entry.stage in dispatch_backward.STAGES}
    assert len(reached) == 4 + 3 * 4 + 4


@pytest.mark.parametrize(
    ("has_states", "of_inputs", "stages"),
    [
        (False, True, ["fwd_h", "dv_local", "dhu", "chunk_grads", "gate_grads", "gate_sums"]),
        (True, True, ["dv_local", "dhu", "chunk_grads", "gate_grads", "gate_sums"]),
        (False, False, ["dv_local", "dhu"]),
        (True, False, ["dv_local", "dhu"]),
    ],
)
def test_a_backward_runs_what_is_asked_of_it(has_states: bool, of_inputs: bool, stages: list[str]) -> None:
    raw = replace(shape(), raw_gate=torch.bfloat16)
    kernels = select_backward(registry_of("sm_90a"), raw, has_states=has_states, of_inputs=of_inputs)
    assert [kernel.stage for kernel in kernels.in_order()] == stages


def test_both_scans_of_a_backward_have_one_variant() -> None:
    kernels = select_backward(registry_of("sm_90a"), shape(), has_states=False, variant="r64k1")
    assert [kernel.variant for kernel in (kernels.fwd_h, kernels.dhu) if kernel is not None] == ["r64k1"] * 2


def test_lengths_of_rows_are_written_only_for_a_backward() -> None:
    kept, left = (select(registry_of("sm_90a"), replace(shape(), keeps_lengths=keeps)) for keeps in (True, False))
    assert kept.in_order() == left.in_order()
    assert left.left_out - kept.left_out == set(KEPT_LENGTHS)


@pytest.mark.parametrize("arch", [target.name for target in TARGETS])
def test_every_recomputation_is_reached(arch: str) -> None:
    registry = registry_of(arch)
    reached = {
        select_recompute(registry, shape(1, 16, dim, activation, torch.float32)).name
        for dim, activation in product(HEAD_DIMS, ACTIVATIONS)
    }
    assert reached == {entry.name for entry in registry.kernels if entry.stage == RECOMPUTE}


def test_names_say_the_dims_and_dtypes_that_were_asked_for() -> None:
    kernels = select(registry_of("sm_90a"), shape(head_dim=64, activation=torch.float16, step=torch.bfloat16))
    assert [entry.name for entry in kernels.in_order()] == [
        "prep__c64_k64_f16_bf16__base",
        "wy__c64_k64_f16__base",
        "fwd_h__c64_k64_v64_f16__r32k2",
        "fwd_o__c64_k64_v64_f16__base",
    ]


@pytest.mark.parametrize(
    ("n_sequences", "value_heads", "head_dim", "variant"),
    [
        (1, 1, 64, "r32k2"),
        (1, 33, 128, "r32k2"),
        (1, 34, 128, "r32k1"),
        (39, 1, 128, "r32k1"),
        (40, 1, 128, "r64k1"),
        (66, 1, 64, "r32k2"),
        (67, 1, 64, "r32k1"),
        (80, 1, 64, "r64k1"),
        (0, 16, 128, "r32k2"),
    ],
)
def test_the_scan_variant_follows_from_the_number_of_rows(
    n_sequences: int, value_heads: int, head_dim: int, variant: str
) -> None:
    assert scan_variant(shape(n_sequences, value_heads, head_dim)) == variant


def test_a_variant_can_be_asked_for() -> None:
    assert select(registry_of("sm_90a"), shape(), "r64k1").fwd_h.variant == "r64k1"


def test_a_kernel_that_the_registry_lacks_is_named() -> None:
    registry = registry_of("sm_90a")
    poor = registry.model_copy(
        update={"kernels": tuple(entry for entry in registry.kernels if entry.variant != "r32k2")}
    )
    with pytest.raises(LoomgenError) as raised:
        select(poor, shape())
    assert str(raised.value) == (
        "the registry of sm_90a has no kernel fwd_h r32k2 for C 64, K 128, V 128, v bf16: run `loomgen render`"
    )
