"""Where a tile is stored that a product reads across its rows."""

from __future__ import annotations

from pathlib import Path

from loomgen.ir import plan
from loomgen.passes.pipeline import lower
from loomgen.passes.trace import leaves
from loomgen.target import SM_90A
from tests.passes.short import LOADS
from tests.spec.support import SHORT, kernels_of

PROGRAM = """
P[i,j] = bf16(x[i,l] @ y[j,l])
q[i,j] = y[i,l] @ x[j,l]
t[j,l] = P[i,j] @ x[i,l]
o[c[i],hv,j] = q[i,j] + t[i,0]
"""


def test_it_is_stored_where_it_is_computed_and_not_kept_in_registers_until_then(tmp_path: Path) -> None:
    indented = "".join(f"  {line}\n" for line in (LOADS + PROGRAM.strip("\n")).split("\n"))
    lowered = lower(kernels_of(tmp_path, f"{SHORT}program: |\n{indented}")[0], SM_90A)
    ops = [leaf for op in lowered.plan.body for leaf in leaves(op)]
    (computed,) = [n for n, op in enumerate(ops) if isinstance(op, plan.MapFragment) and op.dst.name == "P"]
    stored = ops[computed + 1]
    assert isinstance(stored, plan.StoreFragment) and stored.src.name == "P"
    assert any(isinstance(op, plan.Mma) and op.acc.name == "q" for op in ops[computed + 2 :])
