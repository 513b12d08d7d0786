"""Errors become messages on stderr and the documented exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from loomgen.cli.errors import report
from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.project import Project
from loomgen.emulator import EmulatorFault, FaultKind
from loomgen.errors import Diagnostic, InternalError, LoomgenError, MissingRequirement, NoGpu, Span, SpecError
from loomgen.ir.kernel import KernelSpec
from loomgen.toolchain.errors import BuildFailed
from loomgen.toolchain.find import NVCC, MissingTool
from tests.cli.command import loomgen, use_kernels
from tests.render.fakes import kernel

FAULT = EmulatorFault(FaultKind.RACE, kernel="k", block=2, thread=33, line=40, statement=None, message="late")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (MissingTool(NVCC, "was not found"), ExitCode.MISSING_TOOL, "error: nvcc was not found (needed for"),
        (BuildFailed("k.cu(3): error"), ExitCode.CHECK_FAILED, "error: the build failed\nk.cu(3): error"),
        (InternalError("rings", "odd depth"), ExitCode.INTERNAL, "internal error in rings: odd depth\nThis is a fault"),
        (LoomgenError("bad registry"), ExitCode.BAD_INPUT, "error: bad registry"),
        (FAULT, ExitCode.CHECK_FAILED, "fault: race at k:40, block 2, thread 33: late"),
        (NoGpu("no NVIDIA GPU"), ExitCode.MISSING_TOOL, "error: no NVIDIA GPU"),
        (MissingRequirement("pip install x"), ExitCode.MISSING_TOOL, "error: pip install x"),
        (FileNotFoundError(2, "No such file", "x.yaml"), ExitCode.BAD_INPUT, "error: x.yaml: No such file\n"),
        (NotADirectoryError(20, "Not a directory", Path("x")), ExitCode.BAD_INPUT, "error: x: Not a directory\n"),
        (OSError("no room"), ExitCode.BAD_INPUT, "error: no room\n"),
        (ModuleNotFoundError(name="yaml"), ExitCode.MISSING_TOOL, "error: the package yaml is missing"),
        (
            ModuleNotFoundError("gone", name="loomgen.x"),
            ExitCode.INTERNAL,
            "ModuleNotFoundError: gone\nThis is a fault",
        ),
        (KeyError("x"), ExitCode.INTERNAL, "KeyError: 'x'\nThis is a fault of loomgen, not of your spec.\n"),
    ],
)
def test_message_and_code(
    error: Exception, code: ExitCode, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error, tmp_path) is code
    assert capsys.readouterr().err.startswith(message)


def test_a_file_in_the_way_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels(monkeypatch, kernel("copy"))
    (tmp_path / "generated").write_text("")
    result = loomgen(tmp_path, "render")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path / 'generated'}") and result.stderr.count("\n") == 1


def fail_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(self: Project) -> tuple[KernelSpec, ...]:
        raise error

    monkeypatch.setattr(Project, "kernels", fail)


def test_a_bug_is_shown_whole_and_is_our_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, ZeroDivisionError("odd"))
    result = loomgen(tmp_path, "list")
    assert result.exit_code == 4
    assert result.stderr.startswith("Traceback (most recent call last):") and "in fail" in result.stderr
    assert result.stderr.endswith("ZeroDivisionError: odd\nThis is a fault of loomgen, not of your spec.\n")


def test_a_reader_that_wants_no_more_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, BrokenPipeError(32, "Broken pipe"))
    assert loomgen(tmp_path, "list").stderr == ""


@pytest.mark.parametrize("error", [typer.Exit(3), typer.BadParameter("wrong"), typer.Abort()])
def test_what_typer_raises_is_left_to_it(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, error)
    result = loomgen(tmp_path, "list")
    assert "fault of loomgen" not in result.output
    assert result.exit_code == {typer.Exit: 3, typer.BadParameter: 2, typer.Abort: 1}[type(error)]


@pytest.mark.parametrize("options", [("--nothing",), ("--arch",)])
def test_wrong_usage_is_bad_input(options: tuple[str, ...], tmp_path: Path) -> None:
    assert loomgen(tmp_path, "render", *options).exit_code == 2
    assert loomgen(tmp_path, "nothing", *options).exit_code == 2


def test_without_hypothesis_there_is_no_fuzzing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loomgen.cli.fuzz.find_spec", lambda name: None)
    result = loomgen(tmp_path, "fuzz", "--count", "1")
    assert result.exit_code == 3
    assert "pip install hypothesis" in result.stderr


def spec_error() -> SpecError:
    spans = [Span(path="specs/gdn/bad.yaml", line=line, col=1, end_col=6) for line in (1, 2)]
    return SpecError([Diagnostic(code="LG001", message=f"mistake {span.line}", span=span) for span in spans])


def test_every_mistake_in_a_spec_is_shown_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs" / "gdn").mkdir(parents=True)
    (tmp_path / "specs" / "gdn" / "bad.yaml").write_text("stage: x\nfamily: y\n")
    fail_with(monkeypatch, spec_error())
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
