"""``loomgen mutate``: a table of mutants, a summary, and survivors as failures."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loomgen.emulator import EmulatorFault, FaultKind
from loomgen.mutation import MutantRow
from loomgen.registry import KernelEntry
from tests.cli.command import loomgen
from tests.toolchain.projects import NAME, write_project

KILLED = MutantRow(
    kernel=NAME, kind="deleted", line=7, text="sync_block();", replacement="", killed_by="race", how="line 9: late"
)


def use_rows(monkeypatch: pytest.MonkeyPatch, *rows: MutantRow) -> list[Any]:
    calls: list[Any] = []

    def mutate(entries: list[KernelEntry], root: Path, *, on_mutant: Any) -> list[MutantRow]:
        calls.append(([entry.name for entry in entries], root))
        on_mutant(1, 1)
        return list(rows)

    monkeypatch.setitem(sys.modules, "loomgen.mutation", SimpleNamespace(mutate=mutate))
    return calls


def test_every_mutant_found_out_exits_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_project(tmp_path)
    calls = use_rows(monkeypatch, KILLED, replace(KILLED, kind="lanes"))
    result = loomgen(root, "mutate", "--arch", "sm_90a", "--stage", "rev*")
    assert result.exit_code == 0, result.output
    assert calls == [([NAME], root)]
    assert "sync_block();   race           line 9: late" in result.stdout
    assert result.stdout.endswith("found out: deleted 1 of 1, lanes 1 of 1\n")


def test_a_survivor_is_named_and_exits_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_rows(monkeypatch, KILLED, replace(KILLED, line=9, killed_by=None, how=""))
    result = loomgen(write_project(tmp_path), "mutate", "--arch", "sm_90a", "--json")
    assert result.exit_code == 1
    assert [(row["line"], row["killed_by"]) for row in json.loads(result.stdout)] == [(7, "race"), (9, None)]
    assert result.stderr == f"error: survived: {NAME}:9: deleted: sync_block();\n"


def test_a_faulty_original_exits_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def mutate(*arguments: Any, **options: Any) -> list[MutantRow]:
        raise EmulatorFault(FaultKind.RACE, kernel=NAME, block=0, thread=1, line=7, statement=None, message="late")

    monkeypatch.setitem(sys.modules, "loomgen.mutation", SimpleNamespace(mutate=mutate))
    result = loomgen(write_project(tmp_path), "mutate", "--arch", "sm_90a")
    assert result.exit_code == 1
    assert result.stderr == f"fault: race at {NAME}:7, block 0, thread 1: late\n"


@pytest.mark.parametrize("options", [("--arch", "sm_1"), ("--arch", "sm_90a", "--stage", "nothing")])
def test_bad_options_exit_2(options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_rows(monkeypatch)
    assert loomgen(write_project(tmp_path), "mutate", *options).exit_code == 2
