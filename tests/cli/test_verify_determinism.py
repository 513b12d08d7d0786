"""``loomgen verify --determinism``: a row a check, exit codes, and what it does not take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from loomgen.cli import app
from loomgen.verify import OpCase
from loomgen.verify.determinism import CHECKS, SHAPES, DeterminismRow
from loomgen.verify.machines import Emulator


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", "--determinism", *arguments])


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is repeated; one row comes back, with a difference where there are more than 2 repeats."""
    calls: list[Any] = []

    def verify_determinism(
        machine: object, cases: Iterable[OpCase], *, repeats: int, on_check: Callable[[str, str], None]
    ) -> list[DeterminismRow]:
        every = tuple(cases)
        calls.append((type(machine), sum(map(sum, (case.lengths for case in every))), len(every), repeats))
        for case in every:
            for check in CHECKS:
                on_check(case.name, check)
        different = max(0, repeats - 2)
        return [
            DeterminismRow(
                case="ragged", lengths="0,15", heads="1/2", check="alone", runs=repeats, different=different,
                tensors=("dg",) if different else (), digest="00ff", finite=True, ok=not different,
            )
        ]  # fmt: skip

    monkeypatch.setattr("loomgen.verify.determinism.verify_determinism", verify_determinism)
    return calls


def test_the_emulator_repeats_small_shapes(seen: list[Any]) -> None:
    result = verify("--backend", "emulate")
    assert result.exit_code == 0 and "ragged" in result.output and "00ff" in result.output
    ((machine, n_tokens, n_cases, repeats),) = seen
    assert (machine, n_cases, repeats) == (Emulator, len(SHAPES), 2) and n_tokens < 2000
    assert verify("--backend", "emulate", "--arch", "sm_90a").exit_code == 0
    assert seen == [(machine, n_tokens, n_cases, repeats)] * 2


def test_a_difference_fails(seen: list[Any]) -> None:
    result = verify("--backend", "emulate", "--repeats", "3", "--json")
    assert result.exit_code == 1
    (row,) = json.loads(result.output)
    assert (row["runs"], row["different"], row["tensors"], row["ok"]) == (3, 1, ["dg"], False)


def test_without_a_gpu_the_exit_code_says_so(seen: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = verify()
    assert (result.exit_code, seen) == (3, [])
    assert "no NVIDIA GPU" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--backend", "interp"), "--backend interp"),
        (("--op", "chunk_gated_delta_rule"), "--op: --determinism has shapes"),
        (("--seeds", "2"), "--seeds: --determinism has shapes"),
        (("--stage", "wy"), "--stage: --determinism has shapes"),
        (("--shape", "1,2"), "--shape: --determinism has shapes"),
        (("--arch", "sm_90a"), "--arch sm_90a: a GPU has its own"),
        (("--arch", "sm_1"), "--arch sm_1: a GPU has its own"),
        (("--backend", "emulate", "--arch", "sm_1"), "unknown target 'sm_1'"),
    ],
)
def test_other_options_are_refused(options: tuple[str, ...], message: str, seen: list[Any]) -> None:
    result = verify(*options)
    assert (result.exit_code, seen) == (2, [])
    assert message in result.output


def test_repeats_are_of_determinism_alone() -> None:
    result = CliRunner().invoke(app, ["verify", "--repeats", "3"])
    assert result.exit_code == 2 and "--repeats is for --determinism" in result.output


def test_another_project_is_refused(tmp_path: Path, seen: list[Any]) -> None:
    result = CliRunner().invoke(app, ["--root", str(tmp_path), "verify", "--determinism", "--backend", "emulate"])
    assert (result.exit_code, seen) == (2, [])
