"""The document against its schema, the table, the roofline's points."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from loomgen.bench.evidence import Row, compare, document
from loomgen.bench.gpu import Ceilings
from loomgen.bench.roofline import NoPlotting, attainable_tflops, draw_roofline, points
from loomgen.bench.table import table
from loomgen.documents import write_document
from loomgen.errors import LoomgenError
from tests.bench.fakes import case, row, run_of

ROOT = Path(__file__).resolve().parents[2]


def failed_row() -> Row:
    return Row(
        case=case(9),
        times={},
        rel_l2={"loomgen": {"o": math.nan}},
        repeats_equal={"loomgen": False},
        failures={"fla": "RuntimeError: no"},
    )


@pytest.fixture(scope="module")
def schema() -> Any:
    found = json.loads((ROOT / "docs" / "evidence" / "bench.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def test_the_document_fits_its_schema(schema: Any, tmp_path: Path) -> None:
    run = run_of(row(64, loomgen=0.5, fla=1.0), failed_row(), not_measured=("late",))
    write_document(tmp_path / "a" / "bench.json", document(run))
    written = json.loads((tmp_path / "a" / "bench.json").read_text())
    jsonschema.validate(written, schema)
    first, second = written["rows"]
    assert (first["kernel_ms"], first["ratios"]) == ({"loomgen": 0.5, "fla": 1.0}, {"fla": 0.5})
    assert first["kernels"]["loomgen"] == [{"name": "scan", "us": 300.0}, {"name": "output", "us": 200.0}]
    assert second["rel_l2"] == {"loomgen": {"o": None}}
    assert written["not_measured"] == ["late"]


def test_the_schema_refuses_a_row_without_repeats(schema: Any) -> None:
    broken = document(run_of(row(64, loomgen=0.5)))
    del broken["rows"][0]["repeats_equal"]
    with pytest.raises(jsonschema.ValidationError, match="repeats_equal"):
        jsonschema.validate(broken, schema)


def test_the_floor_is_the_larger_of_bytes_and_products() -> None:
    ceilings = Ceilings(copy_tb_per_s=4.0, matmul_tflops=800.0)
    assert ceilings.floor_ms(8_000_000_000, 0) == pytest.approx(2.0)
    assert ceilings.floor_ms(8_000_000_000, 2_400_000_000_000) == pytest.approx(3.0)


def test_peers_are_compared_over_the_rows_where_both_were_timed() -> None:
    rows = [row(1, loomgen=1.0, fla=2.0, flash_qla=1.0), row(2, loomgen=4.0, fla=2.0), row(3, fla=1.0), failed_row()]
    found = compare(rows)
    assert (found["fla"].rows, found["fla"].worst, found["fla"].worst_row) == (2, 2.0, rows[1].case.key)
    assert found["fla"].geometric_mean == pytest.approx(1.0)
    assert (found["flash_qla"].rows, found["flash_qla"].geometric_mean) == (1, 1.0)


def test_the_table_shows_times_ratios_failures_and_what_is_missing() -> None:
    text = table(run_of(row(64, loomgen=0.5, fla=1.0), failed_row(), not_measured=("late",)))
    lines = text.splitlines()
    columns = ["row", "floor ms", "loomgen kernel / call ms", "fla kernel / call ms", "/ fla", "error of o", "repeats"]
    assert [word.strip() for word in lines[0].split("  ") if word] == columns
    assert lines[1].split() == [
        "64|1/2|packed", "0.000", "0.500", "/", "1.000", "1.000", "/", "1.000", "0.500", "1.00e-03", "equal",
    ]  # fmt: skip
    assert lines[2].endswith("DIFFER")
    assert lines[3] == "loomgen / fla: geometric mean 0.500 over 1 rows, worst 0.500 (64|1/2|packed)"
    assert lines[4:] == ["FAILED fla, 9|1/2|packed: RuntimeError: no", "NOT MEASURED late: no time left"]


def test_points_lie_at_operations_over_bytes_and_over_time() -> None:
    timed = row(64, loomgen=0.5)
    (point,) = points(run_of(timed, failed_row()))
    work = timed.case.workload
    assert point.intensity == work.flops() / work.io_bytes()
    assert point.tflops == pytest.approx(work.flops() / 0.5e-3 / 1e12)


def test_the_roof_bends_where_memory_stops_to_limit() -> None:
    ceilings = Ceilings(copy_tb_per_s=4.0, matmul_tflops=800.0)
    assert attainable_tflops(ceilings, 100.0) == 400.0
    assert attainable_tflops(ceilings, 1000.0) == 800.0


def test_no_roofline_without_times_or_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(LoomgenError, match="nothing was timed"):
        draw_roofline(run_of(failed_row()), tmp_path / "r.png")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(NoPlotting):
        draw_roofline(run_of(row(64, loomgen=0.5)), tmp_path / "r.png")
