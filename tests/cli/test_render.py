"""``loomgen render``: what it writes, and what its check finds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from loomgen.cli.project import Project, default_root
from tests.cli.command import loomgen, use_kernels
from tests.render.fakes import kernel

SOURCE = "generated/csrc/sm_90a/gdn/copy__c64_f32__base.cu"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two stages, rendered."""
    use_kernels(monkeypatch, kernel("copy"), kernel("blend"))
    result = loomgen(tmp_path, "render")
    assert result.exit_code == 0, result.output
    assert "10 files, 10 brought up to date" in result.output
    return tmp_path


def test_a_second_render_changes_nothing(root: Path) -> None:
    assert loomgen(root, "render").output == "10 files, 0 brought up to date\n"
    result = loomgen(root, "render", "--check")
    assert (result.exit_code, result.output) == (0, "10 files are as rendered\n")


def test_check_finds_one_changed_byte(root: Path) -> None:
    path = root / SOURCE
    path.write_bytes(path.read_bytes().replace(b"const", b"consT"))
    result = loomgen(root, "render", "--check")
    assert result.exit_code == 1
    assert f"changed: {SOURCE}\n--- {SOURCE} (on disk)\n+++ {SOURCE} (rendered)" in result.output
    assert result.output.endswith("1 of 10 files differ; mend with: loomgen render --arch all\n")


@pytest.mark.parametrize(
    "path", [SOURCE, "generated/MANIFEST.json", "registry/registry_sm_103a.json", "registry/schema.json"]
)
def test_check_finds_a_deleted_file(root: Path, path: str) -> None:
    (root / path).unlink()
    result = loomgen(root, "render", "--check")
    assert result.exit_code == 1
    assert f"missing: {path}\n" in result.output


@pytest.mark.parametrize("path", ["generated/x", "generated/csrc/sm_90a/gdn/x.cu", "registry/registry_sm_80.json"])
def test_check_finds_an_added_file(root: Path, path: str) -> None:
    (root / path).write_bytes(b"")
    result = loomgen(root, "render", "--check")
    assert result.exit_code == 1
    assert f"extra: {path}\n" in result.output


def test_check_writes_nothing(root: Path) -> None:
    (root / SOURCE).unlink()
    loomgen(root, "render", "--check")
    assert not (root / SOURCE).exists()


def test_render_mends_what_check_finds(root: Path) -> None:
    (root / SOURCE).unlink()
    (root / "generated" / "x").write_bytes(b"")
    result = loomgen(root, "render")
    assert f"written {SOURCE}\nremoved generated/x\n" in result.output
    assert loomgen(root, "render", "--check").exit_code == 0


def test_a_stage_that_is_gone_is_removed_everywhere(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_kernels(monkeypatch, kernel("blend"))
    assert loomgen(root, "render").exit_code == 0
    left = [path.relative_to(root).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]
    assert not [path for path in left if "copy" in path]
    assert all(b"copy" not in (root / path).read_bytes() for path in left)


def test_a_selection_leaves_the_rest_alone(root: Path) -> None:
    (root / SOURCE).unlink()
    other = root / "generated/csrc/sm_100a/gdn/blend__c64_f32__base.cu"
    other.unlink()
    result = loomgen(root, "render", "--arch", "sm_90a", "--stage", "co*")
    written, count, left = result.output.splitlines()
    assert (written, count) == (f"written {SOURCE}", "2 files, 1 brought up to date")
    assert left.startswith("the registries and the manifest speak of all stages: render without --stage")
    assert not other.exists()


def test_the_mending_command_repeats_the_selection(root: Path) -> None:
    (root / SOURCE).unlink()
    result = loomgen(root, "render", "--arch", "sm_90a", "--stage", "co*", "--check")
    assert result.output.endswith("mend with: loomgen render --arch sm_90a --stage 'co*'\n")


def test_a_long_diff_is_cut(root: Path) -> None:
    path = root / SOURCE
    path.write_bytes(path.read_bytes() + b"line\n" * 1000)
    result = loomgen(root, "render", "--check")
    assert "more lines\n" in result.output
    assert len(result.output.splitlines()) < 220


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--arch", "sm_80"), "error: unknown target 'sm_80': want one of sm_90a, sm_100a, sm_103a"),
        (("--stage", "nothing*"), "error: no stage or kernel is called 'nothing*'; stages: blend, copy"),
    ],
)
def test_bad_options_exit_2(root: Path, options: tuple[str, ...], message: str) -> None:
    result = loomgen(root, "render", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_comment_or_a_blank_line_in_a_spec_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real specs through the real loader; only the printing is fake."""
    load = Project.kernels
    use_kernels(monkeypatch)
    monkeypatch.setattr(Project, "kernels", load)
    shutil.copytree(default_root() / "specs", tmp_path / "specs")
    assert loomgen(tmp_path, "render").exit_code == 0
    for path in (tmp_path / "specs").rglob("*.yaml"):
        path.write_text("# a comment\n\n" + path.read_text() + "\n# another\n")
    result = loomgen(tmp_path, "render", "--check")
    assert result.exit_code == 0, result.output


def test_a_folder_without_specs_is_no_project(tmp_path: Path) -> None:
    result = loomgen(tmp_path, "render")
    assert result.exit_code == 2
    assert f"error: {tmp_path} is no project" in result.stderr
    assert not (tmp_path / "generated").exists()
