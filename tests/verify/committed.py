"""The committed kernels, compiled for the host, and inputs for them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from loomgen.cli.project import default_root
from loomgen.emulator import EmulatorOptions, EmulatorReport
from loomgen.emulator.stage import EmulatedStage, emulated_stage
from loomgen.registry import KernelEntry, load
from loomgen.verify import Problem, make_problem

ROOT = default_root()
ARCH = "sm_100a"
MAIN = (
    "prep__c64_k128_bf16_f32__base",
    "meta__c64_i32__base",
    "wy__c64_k128_bf16__base",
    "wy_recompute__c64_k128_v128_bf16__base",
    "fwd_h__c64_k128_v128_bf16__r32k2",
    "fwd_o__c64_k128_v128_bf16__base",
    "slack__c64_v128_bf16__base",
    "gates__c64_bf16_bf16__base",
    "gate_grads__c64_bf16_bf16__base",
    "gate_sums__c64__base",
    "dv_local__c64_k128_v128_bf16__base",
    "dhu__c64_k128_v128_bf16__r32k2",
    "chunk_grads__c64_k128_v128_bf16__base",
)
PACK = (0, 15, 64, 65, 200)
HEADS = (2, 4)


def entries() -> tuple[KernelEntry, ...]:
    return load(ARCH, ROOT).kernels


def entry(stage: str) -> KernelEntry:
    """The kernel of a stage for K = V = 128, bf16 activations and fp32 steps; the scan splits its keys."""
    return next(each for each in entries() if each.name in MAIN and each.stage == stage)


def compiled(stage: str) -> EmulatedStage:
    return emulated_stage(entry(stage), ROOT)


def problem(lengths: Sequence[int] = PACK, heads: tuple[int, int] = HEADS) -> Problem:
    """Inputs for the kernels that :func:`entry` gives."""
    return make_problem(lengths, heads, seed=0)


_DEFAULTS = EmulatorOptions()


def run(
    stage: EmulatedStage, of: Problem, options: EmulatorOptions = _DEFAULTS
) -> tuple[dict[str, Tensor], EmulatorReport]:
    """What the kernel writes, from the float64 results of the stages before it."""
    results = of.fresh(argument.name for argument in stage.entry.arguments if argument.access == "out")
    return results, stage.run({**of.given, **of.rounded(), **results}, options)
