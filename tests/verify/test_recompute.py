"""u and w made again from the saved inverse are the bits of the forward."""

from __future__ import annotations

from pathlib import Path

import torch

from loomgen.emulator.stage import emulated_stage
from loomgen.registry import load
from loomgen.verify import make_problem, same_bits

ROOT = Path(__file__).parents[2]


def test_u_and_w_again_are_the_same_bits() -> None:
    registry = load("sm_100a", ROOT)
    problem = make_problem([0, 15, 65], (1, 2), 0)
    given = {**problem.rounded(), **problem.given}
    first, again = problem.fresh(("A", "u", "w")), problem.fresh(("u", "w"))
    emulated_stage(registry.kernel("wy__c64_k128_v128_bf16__base"), ROOT).run({**given, **first})
    emulated_stage(registry.kernel("wy_recompute__c64_k128_v128_bf16__base"), ROOT).run(
        {**given, "A": first["A"], **again}
    )
    assert all(same_bits(again[name], first[name]) for name in again)
    assert not torch.isnan(again["u"].float()).any()
