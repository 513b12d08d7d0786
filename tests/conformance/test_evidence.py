"""The document and the table."""

from __future__ import annotations

import json
from pathlib import Path

from loomgen.conformance.compare import compare
from loomgen.conformance.evidence import compared, document, failed, parse_card, table
from loomgen.conformance.table import all_cases
from loomgen.documents import write_document

CASES = {case.name: case for case in all_cases()}


def test_card() -> None:
    card = parse_card("NVIDIA H200, 580.159.04, 1980, 3201, 1985\n")
    assert (card.name, card.slug, card.driver) == ("NVIDIA H200", "h200", "580.159.04")
    assert card.clocks == {"sm_mhz": 1980, "memory_mhz": 3201, "max_sm_mhz": 1985}
    assert parse_card("NVIDIA H200, 1, 345, [N/A], 1985").clocks["memory_mhz"] is None


def test_document_and_table(tmp_path: Path) -> None:
    case = CASES["mma_ldmatrix_x2"]
    host = case.empty_output()
    device = host.copy()
    device[3, 1] = 0
    good = compared(case, compare(case.comparison, (), host, host))
    bad = compared(case, compare(case.comparison, (), host, device))
    lost = failed(CASES["math_exp2_approx.from_-330_to_130"], RuntimeError("cuLaunchKernel: gone"))
    card = parse_card("NVIDIA H200, 1, 2, 3, 4")
    path = tmp_path / "new" / "conformance.h200.json"
    write_document(path, document(card, {"nvcc": "13.0.88"}, "abc", "repeat it", [good, bad, lost]))
    found = json.loads(path.read_text())
    assert list(found) == ["card", "driver", "clocks", "versions", "commit", "command", "rows"]
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
