"""Tools that measure on a card, where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tools import gpu_compilers, gpu_matmul, gpu_operator, gpu_scan_variants, gpu_start


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (gpu_compilers.main, []),
        (gpu_matmul.main, ["run", "--project", "none"]),
        (gpu_operator.main, []),
        (gpu_scan_variants.main, []),
        (gpu_start.main, []),
    ],
    ids=lambda given: getattr(given, "__module__", None) or "",
)
def test_without_a_card_it_could_not_run(
    main: Callable[[Sequence[str]], int],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*words, "--out", str(tmp_path / "out"), "--commit", "none"]) == 2
    assert "nvidia-smi" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
