"""The documents of runs on a card name what it takes to repeat them, and the pages quote what stands in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loomgen.bench.timing import geometric_mean
from loomgen.registry import load
from tools.gpu_smoke import kernels_of_cases
from tools.gpu_start import forward_kernels

DOCS = Path(__file__).resolve().parents[2] / "docs"
PEERS = ("fla", "flash_qla")
GRADIENTS = ("dq", "dk", "dv", "dg", "dbeta", "dh0")
DOCUMENTS = sorted((DOCS / "evidence").glob("*.h200.json"))


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "evidence" / f"{name}.h200.json").read_text())
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.name))
def test_a_document_names_the_card_its_state_what_took_part_and_how_to_repeat_it(path: Path) -> None:
    found = json.loads(path.read_text())
    assert found["card"] == "NVIDIA H200" and found["driver"] and (found.get("rows") or found["output"])
    assert set(found["clocks"]) == {"sm_mhz", "memory_mhz", "max_sm_mhz"}
    assert found["versions"]["torch" if "conformance" not in path.name else "numpy"]
    assert found["command"].startswith(("python -m tools.", "python -m examples.", "loomgen "))
    assert found["commit"] in found["command"] or found["command"].startswith("loomgen ")
    assert f"`{path.name.removesuffix('.h200.json')}.<card>.json`" in (DOCS / "evidence" / "README.md").read_text()


@pytest.mark.parametrize("name", ["conformance", "operator", "start", "tiny_training"])
def test_every_check_held_but_one_that_the_page_says_does_not(name: str) -> None:
    missed = [row["check"] for row in document(name)["rows"] if not row.get("ok", True)]
    assert set(missed) <= {"training host time"}


def section(page: Path, title: str) -> str:
    """What stands under ``title``, up to the next of its level."""
    return page.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def test_training_host_times_are_the_document_s() -> None:
    rows = [row for row in document("operator")["rows"] if row["check"] == "training host time"]
    page = (DOCS / "operator.md").read_text()
    *ours, _, asleep = rows  # torch alone, which nothing bounds
    assert not any(row["ok"] for row in ours) and asleep["measured"]["median_us"] > ours[0]["bound"]
    for row in rows:
        label = "ragged pack" if row["case"] == "ragged" else row["case"]
        kinds = [kind for kind in ("median", "middle", "in_a_row", "calling_thread") if f"{kind}_us" in row["measured"]]
        assert f"| {label} | " + " | ".join(f"{row['measured'][f'{kind}_us']:.0f} us" for kind in kinds) in page


def ratio(row: dict[str, Any], field: str, peer: str) -> float:
    return float(row[field]["loomgen"] / row[field][peer])


@pytest.mark.parametrize("name", ["forward", "training"])
def test_times_beside_peers_are_the_document_s(name: str) -> None:
    found = document(name)
    page = section(DOCS / "benchmarks.md", f"{name.capitalize()} calls on an H200")
    timed = [row for row in found["rows"] if row["kernel_ms"]]
    assert (len(found["rows"]), len(timed), found["not_measured"]) == (43, 36, [])
    for row in timed:
        times = " | ".join(f"{row['kernel_ms'][who]:.3f} ms" for who in ("loomgen", *PEERS))
        ratios = [row["ratios"][peer] for peer in PEERS]
        memory = [ratio(row, "peak_bytes", peer) for peer in PEERS] if name == "training" else []
        cells = " | ".join(f"{x:.3f}" for x in (*ratios, *memory))
        assert f"| {row['row'].replace('|', ', ')} | {times} | {cells} |\n" in page
    summaries = {
        "GPU kernel time, geometric mean": [found["summary"][peer]["geometric_mean"] for peer in PEERS],
        "GPU kernel time, worst row": [found["summary"][peer]["worst"] for peer in PEERS],
        "call time, geometric mean": [geometric_mean([ratio(row, "call_ms", peer) for row in timed]) for peer in PEERS],
        "call time, worst row": [max(ratio(row, "call_ms", peer) for row in timed) for peer in PEERS],
        "peak memory, worst row": [max(ratio(row, "peak_bytes", peer) for row in timed) for peer in PEERS],
    }
    for label, values in summaries.items():
        assert f"| {label} | " + " | ".join(f"{value:.3f}" for value in values) + " |" in page
    missed = {check for check, holds in found["checks"].items() if not holds}
    assert all(f"`{check}`" in page for check in missed)


@pytest.mark.parametrize(("name", "what"), [("forward", "`o`"), ("training", "a gradient")])
def test_errors_beside_peers_are_the_document_s(name: str, what: str) -> None:
    page = " ".join(section(DOCS / "benchmarks.md", f"{name.capitalize()} calls on an H200").split())
    rows = [row for row in document(name)["rows"] if row["suite"] == "perf"]
    parts = ("o",) if name == "forward" else GRADIENTS
    ours, fla, flash_qla = (
        max(row["rel_l2"][who][part] for row in rows for part in parts if part in row["rel_l2"][who])
        for who in ("loomgen", *PEERS)
    )
    assert f"the largest error of {what} is {ours:.2e}, FLA's {fla:.2e}, FlashQLA's {flash_qla:.2e}" in page


def test_the_error_without_decay_is_the_document_s() -> None:
    row = next(row for row in document("forward")["rows"] if row["row"] == "acc-ragged4=512|8/16|packed|none")
    page = " ".join((DOCS / "operator.md").read_text().split())
    assert f"of a pack of 512 tokens at head dim 128 is at {row['rel_l2']['loomgen']['o']:.2e} in bf16" in page


def test_a_training_call_s_errors_with_correlated_keys_and_its_kernels_are_the_document_s() -> None:
    found = document("training")
    page = " ".join(section(DOCS / "benchmarks.md", "Training calls on an H200").split())
    hard = next(row["rel_l2"] for row in found["rows"] if "correlated keys" in row["row"])
    dh0, dg = hard["loomgen"]["dh0"], hard["loomgen"]["dg"]
    assert f"of `dh0` is {dh0:.2e}, {dh0 / hard['fla']['dh0']:.2f} of FLA's" in page
    assert f"of `dg` {dg:.2e}, {dg / hard['flash_qla']['dg']:.2f} of FlashQLA's" in page
    row = next(row for row in found["rows"] if row["row"] == "4x4096|16/32|packed")
    slowest, *_ = row["kernels"]["loomgen"]
    assert slowest["name"].startswith("chunk_grads") and f"kernel, {slowest['us'] / 1e3:.3f} ms of" in page
    made = [k["us"] / 1e3 for k in row["kernels"]["flash_qla"] if k["name"].startswith("triton")]
    assert "here " + " and ".join(f"{ms:.3f} ms" for ms in made) + " of that row" in page


def test_what_the_sanitizers_found_is_the_document_s() -> None:
    found = document("training_sanitizers")
    assert found["checks"]["sanitizer_clean"] and {finding["errors"] for finding in found["sanitizer"]} == {0}
    assert f"found nothing, at {found['commit']}" in (DOCS / "benchmarks.md").read_text()


def test_no_bit_differed_in_as_many_runs_as_the_page_says() -> None:
    found = document("determinism")["output"]
    assert len({row["case"] for row in found}) == 12
    assert {(row["different"], row["ok"], row["finite"]) for row in found} == {(0, True, True)}
    assert f"differed in {sum(row['runs'] for row in found):,} runs" in (DOCS / "numerics.md").read_text()


def test_fla_s_tests_are_the_document_s() -> None:
    found = document("fla_tests")
    tests = [row for row in found["rows"] if not row["test"].endswith("not a test of FLA")]
    page = (DOCS / "integrations.md").read_text()
    ours = [row for row in tests if row["calls"]]
    assert {row["outcome"] for row in tests} == {"passed"}
    assert f"{len(tests)} of FLA's tests ran" in page and f"all {len(ours)} that loomgen can run" in page
    assert f"ran {sum(row['calls'] for row in ours)} calls; the other {len(found['not_run'])} had" in page


def test_fla_s_layer_is_the_document_s() -> None:
    layer = document("fla_layer")["rows"][0]
    assert layer["ok"] and layer["calls"] == layer["differentiable"] == 1
    differs = float(layer["why"].split("differs from FLA's by ")[1].split(",")[0])
    assert f"differs most from FLA's differs by {differs:.1e}" in (DOCS / "integrations.md").read_text()


def test_the_training_run_s_figures_are_the_document_s() -> None:
    rows = {row.get("case"): row["measured"] for row in document("tiny_training")["rows"] if "measured" in row}
    page = (DOCS / "integrations.md").read_text()
    assert f"differed by {rows['beside fla']['relative']:.1e}" in page
    speed = rows["steps a second"]
    assert f"{speed['loomgen']:.1f} beside {speed['fla']:.1f}" in page


def test_host_times_are_the_document_s() -> None:
    rows = {row["case"]: row["measured"] for row in document("operator")["rows"] if row["check"] == "host time"}
    labels = {
        "ragged": "ragged pack",
        "1 x 4096, 4/12 heads": "1 x 4096 without `cu_seqlens`, 4/12 heads",
        "1 x 4096 packed, 4/12 heads": "1 x 4096 packed, 4/12 heads",
        "4 x 4096 packed, 16/32 heads": "4 x 4096 packed, 16/32 heads",
    }
    page = (DOCS / "operator.md").read_text()
    assert set(rows) == set(labels)
    for case, label in labels.items():
        assert f"| {label} | {rows[case]['median_us']:.0f} us | {rows[case]['middle_us']:.0f} us |" in page
    assert f"up to {max(row['largest_us'] for row in rows.values()):.0f} us" in page
    assert f"takes {rows['ragged']['new_lengths_us'] / 1e3:.1f} ms" in page


def test_starts_are_the_document_s() -> None:
    nvcc, nvrtc, first = (row["measured"] for row in document("start")["rows"])
    page = (DOCS / "runtime.md").read_text()
    assert f"| {nvcc['kernels']} kernels from an empty cache, nvcc 13.0.88 | {nvcc['seconds']:.1f} s | 60 s |" in page
    assert f"| the same, NVRTC 13.0 | {nvrtc['seconds']:.1f} s | 60 s |" in page
    assert f"the slowest of 3 processes | {first['largest_seconds']:.3f} s | 1 s |" in page


def test_kernels_that_were_counted_are_told_from_those_that_there_are() -> None:
    page = " ".join((DOCS / "runtime.md").read_text().split())
    found, registry = document("start"), load("sm_90a")
    counted = found["rows"][0]["measured"]["kernels"]
    assert f"A forward can launch {len(forward_kernels(registry))} kernels." in page
    assert f"of {found['commit']}, when it could launch {counted}," in page
    assert f"of the same {counted} kernels of {document('compilers')['commit']}:" in page
    assert f"the {len(kernels_of_cases(registry))} kernels of `prep`, `wy`, `fwd_h` and `fwd_o`" in page


def test_compilers_are_the_document_s() -> None:
    rows = document("compilers")["rows"]
    code, stages, forwards = ([row for row in rows if row["pass"] == name] for name in ("code", "stages", "fwd"))
    ratios = [row["nvrtc_over_nvcc"] for row in forwards]
    excess = max(abs(row["instructions"]["nvrtc"] / row["instructions"]["nvcc"] - 1) for row in code)
    page = " ".join((DOCS / "runtime.md").read_text().split())
    assert all(row["equal"] for row in (*stages, *forwards)) and len(forwards) == 6
    assert f"{sum(row['same_sass'] for row in code)} of {len(code)} kernels have the same SASS" in page
    assert f"{sum(not row['differing_opcodes'] for row in code)} as many instructions of each opcode" in page
    assert f"by more than {excess:.1%}".replace("%", " %") in page and f"in {len(stages)} cases" in page
    assert f"is {min(ratios):.3f} to {max(ratios):.3f} of that with nvcc's" in page


def test_the_product_s_figures_are_the_document_s() -> None:
    (row,) = document("matmul_tma")["rows"]
    page = " ".join((DOCS / "examples.md").read_text().split())
    ours, cublas = (f"{row['tflops'][name]:.0f}" for name in ("loomgen", "cublas"))
    assert f"{ours} TFLOP/s beside cuBLAS's {cublas}" in page
    assert row["integers"] and f"the same bits in {row['repeats_equal']} repetitions" in page
