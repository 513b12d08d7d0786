"""Sums along an index that two groups of warps share: the same bits in every group, variant and order of threads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from torch import Tensor

from loomgen.emit.cuda import emit_body
from loomgen.emit.layout import kernel_source
from loomgen.emulator import EmulatorFault, EmulatorOptions
from loomgen.emulator.stage import EmulatedStage, emulated_stages
from loomgen.interp import interpret
from loomgen.passes.pipeline import LoweredKernel, lower
from loomgen.registry import SourceEntry
from loomgen.render.entry import kernel_entry
from loomgen.spec import load
from loomgen.target import target_named
from loomgen.verify import relative_l2, same_bits
from loomgen.verify.arbitrary import Case, Parameter, make_case

SPEC = Path(__file__).parent / "split_sums.yaml"
ROOT = Path(__file__).resolve().parents[2]
LENGTHS, HEADS = (65, 0, 20), (1, 2)
VARIANTS = ("k2", "k1")
TARGETS = ("sm_90a", "sm_100a")
N_SEEDS = 3
BOUND = 1e-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A kernel of the stage, its source, and the source in the emulator."""

    lowered: LoweredKernel
    source: str
    stage: EmulatedStage


@cache
def compiled(variant: str, target: str) -> Compiled:
    kernel = next(each for each in load([SPEC], SPEC.parent) if each.name.variant == variant)
    lowered = lower(kernel, target_named(target))
    text = kernel_source(kernel, emit_body(lowered))
    folder = ROOT / "build" / "tests" / target
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kernel.name}.cu"
    path.write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    entry = kernel_entry(kernel, lowered, SourceEntry(path=path.name, sha256=digest))
    (stage,) = emulated_stages([(entry, path)], ROOT / "loomgen" / "include", ROOT / "build" / "emulator")
    return Compiled(lowered=lowered, source=text, stage=stage)


@cache
def inputs() -> Case:
    parameters = map(Parameter.of, compiled("k2", "sm_90a").lowered.arguments)
    return make_case(parameters, {"C": 64, "K": 128, "V": 128}, LENGTHS, HEADS, seed=1)


def emulated(variant: str, target: str, options: EmulatorOptions | None = None) -> dict[str, Tensor]:
    results = inputs().fresh()
    compiled(variant, target).stage.run({**inputs().given, **results}, options or EmulatorOptions())
    return results


def interpreted(variant: str, mode: str) -> dict[str, Tensor]:
    lowered, results = compiled(variant, "sm_90a").lowered, inputs().fresh()
    if mode == "float64":
        results = {name: tensor.double() for name, tensor in results.items()}
    known = {tensor.name for tensor in lowered.program.tensors} | {"chunk_start", "chunk_len", "cu_seqlens"}
    given = {name: value for name, value in {**inputs().given, **results}.items() if name in known}
    interpret(lowered.program, given, mode=mode, orders=lowered.orders)  # type: ignore[arg-type]
    return results


def differing(some: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> list[str]:
    return [name for name in some if not same_bits(some[name], others[name])]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_kernel_computes_the_bits_of_its_orders(variant: str, target: str) -> None:
    expected = interpreted(variant, "ordered")
    assert differing(emulated(variant, target), expected) == []
    for seed in range(N_SEEDS):
        options = EmulatorOptions(seed=seed, completion="random")
        assert differing(emulated(variant, target, options), expected) == [], seed


def test_one_group_of_warps_computes_the_bits_of_two() -> None:
    assert differing(emulated("k1", "sm_90a"), emulated("k2", "sm_90a")) == []


def test_the_sums_are_right() -> None:
    results, exact = emulated("k2", "sm_90a"), interpreted("k2", "float64")
    assert {name: relative_l2(results[name], exact[name]) <= BOUND for name in exact} == dict.fromkeys(exact, True)


def test_no_barrier_can_be_left_out() -> None:
    kernel, expected = compiled("k2", "sm_90a"), emulated("k2", "sm_90a")
    lines = kernel.source.split("\n")
    syncs = [n for n, line in enumerate(lines, 1) if "sync_block(" in line or "sync_warp(" in line]
    assert [n for n in syncs if not is_found_out(n, expected)] == []
    assert any("write gq_parts, gk_parts, most_parts -> read them" in lines[n - 1] for n in syncs)


def is_found_out(line: int, expected: Mapping[str, Tensor]) -> bool:
    """What the kernel does without a line faults, or has other results."""
    for seed in range(N_SEEDS):
        options = EmulatorOptions(seed=seed, completion="random", disabled_line=line)
        try:
            results = emulated("k2", "sm_90a", options)
        except EmulatorFault:
            return True
        if differing(results, expected):
            return True
    return False
