"""The oracle finds what it is there to find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loomgen.emit import cuda
from loomgen.fuzz import Case, Verdict, check, check_cases
from loomgen.passes.pipeline import LoweredKernel

CACHE = Path(__file__).resolve().parents[2] / "build" / "fuzz"
TEXT = """\
stage: fuzz
family: fuzz
dims: {C: 16, K: 16}
tensors:
  t0: {access: in, dtype: f32, shape: [T, K]}
  o1: {access: out, dtype: bf16, shape: [T, K]}
index: {i: C, d: K}
grid: {c: chunks}
program: |
  x0[i,d] = t0[c[i],d]
  o1[c[i],d] = bf16(2.0*x0[i,d])
"""
CASE = Case(text=TEXT, lengths=(20, 0), heads=(1, 1), seed=0)


def with_source(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Lets the compiler print another kernel than it should."""
    emit = cuda.emit_body

    def changed(lowered: LoweredKernel) -> str:
        text = emit(lowered)
        assert old in text
        return text.replace(old, new)

    monkeypatch.setattr(check, "emit_body", changed)


def test_a_stage_that_is_compiled_rightly_agrees() -> None:
    (outcome,) = check_cases([CASE], CACHE)
    assert outcome.verdict is Verdict.AGREES
    assert outcome.nodes["Load"] == outcome.nodes["Store"] == outcome.nodes["StoreDirect"] == 1


def test_a_wrong_product_is_told_with_the_first_element(monkeypatch: pytest.MonkeyPatch) -> None:
    with_source(monkeypatch, "2.0f * ", "2.5f * ")
    (outcome,) = check_cases([CASE], CACHE)
    assert (outcome.verdict, outcome.kind) == (Verdict.FAILED, "bits")
    assert outcome.message.startswith("seed 0: o1[0, 0]: interpreter ")
    assert outcome.message.endswith(", 320 in all")


def test_a_fault_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with_source(monkeypatch, "i < c_len", "i < c_len + 1")
    (outcome,) = check_cases([CASE], CACHE)
    assert (outcome.verdict, outcome.kind) == (Verdict.FAILED, "fault: out_of_bounds")


def test_a_kernel_that_does_not_compile_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(CASE, text=TEXT.replace("2.0*x0", "3.0*x0"))
    emit = cuda.emit_body
    monkeypatch.setattr(check, "emit_body", lambda lowered: emit(lowered).replace("2.0f * ", "twice * "))
    broken, fine = check_cases([CASE, other], CACHE)
    assert (broken.verdict, broken.kind) == (Verdict.FAILED, "host compiler")
    assert "twice" in broken.message
    assert fine.verdict is Verdict.AGREES


def test_a_limit_is_a_refusal_and_a_mistake_a_failure() -> None:
    limit = replace(CASE, text=TEXT + "schedule: {vector: 32}\n")
    mistake = replace(CASE, text=TEXT.replace("2.0*x0", "2.0*y0"))
    refused, failed = check_cases([limit, mistake], CACHE)
    assert (refused.verdict, refused.kind[:4]) == (Verdict.REFUSED, "LG10")
    assert (failed.verdict, failed.kind) == (Verdict.FAILED, "LG032")


def test_a_compiler_that_dies_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(lowered: LoweredKernel) -> str:
        raise KeyError("x0")

    monkeypatch.setattr(check, "emit_body", dies)
    (outcome,) = check_cases([CASE], CACHE)
    assert (outcome.verdict, outcome.kind) == (Verdict.FAILED, "compiler: KeyError in test_check.dies")
