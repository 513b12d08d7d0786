"""How a tool ends."""

from __future__ import annotations

import subprocess

import pytest

from loomgen.errors import LoomgenError
from tools.running import COULD_NOT_RUN, FAILED, OK, exit_code


def test_what_was_checked_decides() -> None:
    assert (exit_code(lambda: True), exit_code(lambda: False)) == (OK, FAILED) == (0, 1)


@pytest.mark.parametrize(
    "error", [LoomgenError("no GPU"), FileNotFoundError("no GPU"), subprocess.CalledProcessError(1, "no GPU")]
)
def test_what_could_not_run_says_why(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> bool:
        raise error

    assert exit_code(run) == COULD_NOT_RUN == 2
    assert "no GPU" in capsys.readouterr().err


def test_a_fault_of_the_tool_is_none_of_these() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_code(lambda: bool(1 // 0))
