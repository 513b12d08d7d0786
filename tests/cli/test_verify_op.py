"""``loomgen verify --op``: a table of cases, and what an operator does not take."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from loomgen.cli import app
from loomgen.verify import OpRow


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["verify", "--op", "chunk_gated_delta_rule", *arguments])


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the operator is verified with; one row comes back, as bad as the number of seeds."""
    calls: list[Any] = []

    def verify_op(name: str, seeds: range, *, arch: str, kernels: Any, on_case: Any) -> list[OpRow]:
        calls.append((name, tuple(seeds), arch))
        error = len(seeds) * 3e-3
        return [
            OpRow(
                case="ragged", lengths="0,15", heads="1/2", seed=0, tensor="o",
                rel_l2=error, bound=5e-3, ok=error <= 5e-3,
            )
        ]  # fmt: skip

    module = SimpleNamespace(verify_op=verify_op, CASES=("ragged",))
    monkeypatch.setitem(sys.modules, "loomgen.verify", module)
    return calls


@pytest.mark.parametrize(("seeds", "exit_code"), [("1", 0), ("2", 1)])
def test_the_table_has_a_row_for_each_result_and_fails_past_a_bound(
    seeds: str, exit_code: int, seen: list[Any]
) -> None:
    result = verify("--backend", "emulate", "--seeds", seeds, "--arch", "sm_90a")
    assert result.exit_code == exit_code
    assert "ragged" in result.output and "0,15" in result.output
    assert seen == [("chunk_gated_delta_rule", tuple(range(int(seeds))), "sm_90a")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--backend interp"),
        (("--backend", "emulate", "--shape", "1,2"), "--shape is for stages"),
        (("--backend", "emulate", "--heads", "1/2"), "--heads is for stages"),
        (("--backend", "emulate", "--stage", "wy"), "--stage is for stages"),
    ],
)
def test_options_of_stages_are_refused(options: tuple[str, ...], message: str, seen: list[Any]) -> None:
    result = verify(*options)
    assert (result.exit_code, seen) == (2, [])
    assert message in result.output


def test_another_project_is_refused(tmp_path: Path, seen: list[Any]) -> None:
    arguments = ["--root", str(tmp_path), "verify", "--op", "chunk_gated_delta_rule", "--backend", "emulate"]
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, seen) == (2, [])
    assert "kernels beside the package" in " ".join(result.output.split())
