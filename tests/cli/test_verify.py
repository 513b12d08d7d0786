"""``loomgen verify``: what it runs, prints and exits with."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loomgen.emulator import EmulatorFault, FaultKind
from loomgen.verify import VerifyRow
from tests.cli.command import loomgen, use_kernels
from tests.render.fakes import kernel

ROW = VerifyRow(
    stage="copy",
    kernel="copy__c64_f32__base",
    tensor="o",
    seed=1,
    exact_by="golden",
    rel_l2=1e-3,
    bound=5e-3,
    bits=True,
    ok=True,
)
FAULT = EmulatorFault(
    FaultKind.RACE, kernel="copy__c64_f32__base", block=2, thread=33, line=40, statement="y[i] = x[i]", message="late"
)


def use_rows(monkeypatch: pytest.MonkeyPatch, *rows: VerifyRow) -> list[tuple[Any, ...]]:
    """Let verification give these rows; returns what it is called with."""
    calls: list[tuple[Any, ...]] = []

    def verify_stages(*arguments: Any, root: Path, arch: str, on_kernel: Any) -> list[VerifyRow]:
        calls.append((*arguments, root, arch))
        on_kernel("copy__c64_f32__base", 0)
        return list(rows)

    use_kernels(monkeypatch, kernel("copy"))
    monkeypatch.setitem(sys.modules, "loomgen.verify", SimpleNamespace(verify_stages=verify_stages))
    return calls


def test_the_options_say_what_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = use_rows(monkeypatch, ROW)
    options = ("--backend", "emulate", "--arch", "sm_90a", "--shape", "0, 15", "--heads", "1/3", "--seeds", "2")
    result = loomgen(tmp_path, "verify", *options)
    assert result.exit_code == 0, result.output
    assert calls == [((kernel("copy"),), "emulate", (0, 15), (1, 3), (0, 1), tmp_path, "sm_90a")]
    (line,) = (line for line in result.stdout.splitlines() if "copy__" in line)
    assert line.split() == ["copy", "copy__c64_f32__base", "1", "o", "golden", "0.001", "0.005", "yes", "yes"]


@pytest.mark.parametrize("changes", [{"rel_l2": 1e-2}, {"bits": False}, {"rel_l2": float("inf")}])
def test_a_row_that_is_not_well_exits_1(
    changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {name: getattr(ROW, name) for name in VerifyRow.__dataclass_fields__}
    use_rows(monkeypatch, ROW, VerifyRow(**{**fields, "ok": False, **changes}))
    result = loomgen(tmp_path, "verify", "--json")
    assert result.exit_code == 1
    first, second = json.loads(result.stdout, parse_constant=pytest.fail)
    assert (first["ok"], second["ok"]) == (True, False)
    assert second["rel_l2"] == (None if changes.get("rel_l2") == float("inf") else changes.get("rel_l2", 1e-3))


def test_a_fault_names_the_spec_statement_and_exits_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def verify_stages(*arguments: Any, **options: Any) -> list[VerifyRow]:
        raise FAULT

    use_kernels(monkeypatch, kernel("copy"))
    monkeypatch.setitem(sys.modules, "loomgen.verify", SimpleNamespace(verify_stages=verify_stages))
    result = loomgen(tmp_path, "verify", "--backend", "emulate")
    assert result.exit_code == 1
    assert result.stderr == ("fault: race at copy__c64_f32__base:40, block 2, thread 33: late (in: y[i] = x[i])\n")


@pytest.mark.parametrize(
    "options",
    [
        ("--shape", "1,x"),
        ("--shape", ""),
        ("--heads", "4"),
        ("--heads", "0/4"),
        ("--heads", "3/4"),
        ("--arch", "sm_1"),
        ("--arch", "all"),
        ("--stage", "nothing"),
    ],
)
def test_bad_options_exit_2(options: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_rows(monkeypatch)
    assert loomgen(tmp_path, "verify", *options).exit_code == 2
