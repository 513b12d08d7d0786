"""The training example, for two steps in the emulator."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from examples.tiny_model import IN_EMULATOR, corpus, draw_batches
from examples.train_tiny import loss_row, main, recorded, replay_row, speed_row
from examples.training import Trained, rate_at

RUN = Trained(rule="loomgen", losses=(2.0, 1.0), grad_norms=(0.5, 0.25), weights="ab", steps_per_second=8.0)


def test_batches_are_bytes_of_the_text_and_the_same_ones_every_time(tmp_path: Path) -> None:
    batches = draw_batches(corpus(), IN_EMULATOR, 3)
    assert batches.shape == (3, 1, 17) and batches.dtype is torch.uint8
    assert bytes(batches[0, 0].tolist()) in bytes(corpus().tolist())
    assert torch.equal(batches, draw_batches(corpus(), IN_EMULATOR, 3))
    assert torch.equal(batches, recorded(tmp_path / "new", batches))


@pytest.mark.parametrize(
    ("again", "different"),
    [
        (RUN, None),
        (replace(RUN, losses=(2.0, 1.0000001)), "losses"),
        (replace(RUN, grad_norms=(0.5, 0.2500001)), "grad_norms"),
        (replace(RUN, weights="ac"), "weights"),
        (replace(RUN, steps_per_second=9.0), None),
    ],
)
def test_a_replay_holds_if_every_bit_is_the_same(again: Trained, different: str | None) -> None:
    row = replay_row(RUN, again, "replay")
    assert row.ok is (different is None)
    assert [name for name, n in row.measured.items() if n and name != "steps"] == ([different] if different else [])


def test_final_losses_are_means_of_the_last_steps_relative_to_the_control_s() -> None:
    ours = replace(RUN, losses=(9.0, *(1.0,) * 10))
    near, far = (replace(ours, rule="fla", losses=(0.0, *(1.0,) * 9, last)) for last in (1.009, 1.011))
    assert loss_row(ours, near).ok and not loss_row(ours, far).ok
    assert loss_row(ours, near).measured["relative_last_step"] == pytest.approx(0.009 / 1.009)


def test_the_rate_goes_up_and_then_down_to_almost_nothing() -> None:
    rates = [rate_at(i, 100) for i in range(100)]
    assert rates[0] == 0.1 and max(rates) == rates[9] == 0.91 and rates[-1] == pytest.approx(0.01)


def test_of_each_path_the_fastest_run_counts() -> None:
    runs = {"run": RUN, "replay 1": replace(RUN, steps_per_second=9.0), "control 1": replace(RUN, rule="fla")}
    assert speed_row(runs).measured == {"loomgen": 9.0, "fla": 8.0}


def test_two_steps_replay_to_the_same_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    code = main(["--steps", "2", "--device", "cpu", "--control", "torch", "--out", str(tmp_path), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 0 and document == json.loads((tmp_path / "training.cpu.json").read_text())
    checks = {(row["check"], row["case"]): row for row in document["rows"]}
    for i in (1, 2):
        measured = checks["replay", f"replay {i}"]["measured"]
        assert measured == {"losses": 0, "grad_norms": 0, "weights": 0, "steps": 2}
    run, control = checks["series", "run"], checks["series", "control 1"]
    assert len(run["losses"]) == 2 and run["losses"][1] != run["losses"][0]
    assert run["weights"] != control["weights"]


def test_without_transformers_it_could_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main(["--steps", "1", "--device", "cpu", "--out", str(tmp_path)]) == 2
    assert "pip install 'loomgen[transformers]'" in capsys.readouterr().err
