"""u and w from the inverse that a forward leaves are what the scan applies without them."""

from __future__ import annotations

from pathlib import Path

import torch

from loomgen.emulator.stage import emulated_stage
from loomgen.registry import load
from loomgen.runtime.tables import window_tables
from loomgen.verify import make_problem, relative_l2

ROOT = Path(__file__).parents[2]
LENGTHS = (0, 15, 64, 65)


def test_u_less_what_w_reads_of_the_state_is_v_new() -> None:
    registry = load("sm_100a", ROOT)
    problem = make_problem(LENGTHS, (1, 2), 0)
    given, results = {**problem.rounded(), **problem.given}, problem.fresh(("A", "h", "v_new", "ht", "u", "w"))
    for kernel in ("wy__c64_k128_bf16__base", "fwd_h__c64_k128_v128_bf16__r32k2"):
        emulated_stage(registry.kernel(kernel), ROOT).run({**given, **results})
    emulated_stage(registry.kernel("wy_recompute__c64_k128_v128_bf16__base"), ROOT).run({**given, **results})
    tables = window_tables(LENGTHS, 64)
    for c, (start, length) in enumerate(zip(tables.chunk_start.tolist(), tables.chunk_len.tolist(), strict=True)):
        u, w = (results[name][start : start + length].double() for name in ("u", "w"))
        v_new = results["v_new"][c, :, :, :length].permute(2, 0, 1)
        exact = u - torch.einsum("hvk,thk->thv", results["h"][c].double(), w)
        assert relative_l2(v_new, exact) < 6e-3
