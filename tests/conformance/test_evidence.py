"""The document and the table."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from loomgen.conformance.compare import compare
from loomgen.conformance.evidence import compared, failed, table
from loomgen.conformance.table import all_cases
from loomgen.evidence import parse_card, write_evidence

CASES = {case.name: case for case in all_cases()}


def test_document_and_table(tmp_path: Path) -> None:
    case = CASES["mma_ldmatrix_x2"]
    host = case.empty_output()
    device = host.copy()
    device[3, 1] = 0
    good = compared(case, compare(case.comparison, (), host, host))
    bad = compared(case, compare(case.comparison, (), host, device))
    lost = failed(CASES["math_exp2_approx.from_-330_to_130"], RuntimeError("cuLaunchKernel: gone"))
    card = parse_card("NVIDIA H200, 1, 2, 3, 4")
    rows, used = map(asdict, (good, bad, lost)), {"nvcc": "13.0.88"}
    path = write_evidence(tmp_path, "conformance", card, rows, versions=used, commit="abc", command="repeat it")
    found = json.loads(path.read_text())
    assert found["rows"][1] == {
        "primitive": "ldmatrix_x2",
        "kernel": "mma_ldmatrix_x2",
        "case": "mma_ldmatrix_x2",
        "elements": 64,
        "differing": 1,
        "max_ulp": None,
        "bound": "bitwise",
        "share_of_bound": None,
        "ok": False,
        "first_failure": "[7] host 0xa5a5a5a5, device 0x00000000",
    }
    assert (found["rows"][2]["bound"], found["rows"][2]["differing"]) == ("3 ulp, subnormals as 0", 1 << 20)
    assert table([good, bad, lost]).splitlines()[-3:] == [
        "FAILED mma_ldmatrix_x2: [7] host 0xa5a5a5a5, device 0x00000000 (bound: bitwise)",
        "FAILED math_exp2_approx.from_-330_to_130: cuLaunchKernel: gone (bound: 3 ulp, subnormals as 0)",
        "3 cases, 2 failed",
    ]


def test_a_comparison_needs_numpy_alone() -> None:
    others = ("torch", "pydantic", "yaml", "networkx", "jinja2", "typer", "rich")
    program = f"import sys; sys.modules.update(dict.fromkeys({others})); import tools.gpu_conformance"
    subprocess.run([sys.executable, "-c", program], check=True)
