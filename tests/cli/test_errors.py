"""Errors become messages on stderr and the documented exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomgen.cli.errors import report
from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.project import Project
from loomgen.errors import Diagnostic, InternalError, LoomgenError, Span, SpecError
from loomgen.ir.kernel import KernelSpec
from loomgen.toolchain.errors import BuildFailed
from loomgen.toolchain.find import NVCC, MissingTool
from tests.cli.command import loomgen


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MissingTool(NVCC, "was not found"), ExitCode.MISSING_TOOL, "error: nvcc was not found (needed for"),
        (BuildFailed("k.cu(3): error"), ExitCode.CHECK_FAILED, "error: the build failed\nk.cu(3): error"),
        (InternalError("rings", "odd depth"), ExitCode.INTERNAL, "internal error in rings: odd depth\nThis is a fault"),
        (LoomgenError("bad registry"), ExitCode.BAD_INPUT, "error: bad registry"),
    ],
)
def test_message_and_code(
    error: LoomgenError, code: ExitCode, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error, tmp_path) is code
    assert capsys.readouterr().err.startswith(message)


def spec_error() -> SpecError:
    spans = [Span(path="specs/gdn/bad.yaml", line=line, col=1, end_col=6) for line in (1, 2)]
    return SpecError([Diagnostic(code="LG001", message=f"mistake {span.line}", span=span) for span in spans])


def test_every_mistake_in_a_spec_is_shown_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Project) -> tuple[KernelSpec, ...]:
        raise spec_error()

    (tmp_path / "specs" / "gdn").mkdir(parents=True)
    (tmp_path / "specs" / "gdn" / "bad.yaml").write_text("stage: x\nfamily: y\n")
    monkeypatch.setattr(Project, "kernels", fail)
    result = loomgen(tmp_path, "list")
    assert result.exit_code == 2
    assert "specs/gdn/bad.yaml:1:1: error LG001: mistake 1" in result.stderr
    assert "family: y" in result.stderr
    assert result.stderr.endswith("2 errors\n")


def test_a_real_mistake_in_a_spec_exits_2_with_its_place(tmp_path: Path) -> None:
    spec = tmp_path / "specs" / "gdn" / "bad.yaml"
    spec.parent.mkdir(parents=True)
    spec.write_text("stage: bad\nfamiliy: gdn\n")
    result = loomgen(tmp_path, "render")
    assert result.exit_code == 2
    assert "specs/gdn/bad.yaml:2:1: error LG" in result.stderr
    assert "  familiy: gdn\n  ^^^^^^^\n" in result.stderr


def test_a_spec_that_cannot_be_read_whole_is_still_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(spec_error(), tmp_path) is ExitCode.BAD_INPUT
    assert "LG001: mistake 1" in capsys.readouterr().err
