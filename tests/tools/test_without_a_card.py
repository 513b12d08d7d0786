"""Tools that measure on a card, where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tools import gpu_compilers, gpu_operator, gpu_start


@pytest.mark.parametrize(
    "main", [gpu_compilers.main, gpu_operator.main, gpu_start.main], ids=lambda main: main.__module__
)
def test_without_a_card_it_could_not_run(
    main: Callable[[Sequence[str]], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--out", str(tmp_path / "out"), "--commit", "none"]) == 2
    assert "nvidia-smi" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
