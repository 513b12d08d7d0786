"""``loomgen build --bundle``: what it puts into the package is all that the runtime needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from loomgen.cli import app
from loomgen.registry import load
from loomgen.runtime.bundle import Bundle
from loomgen.runtime.cubins import CubinStore
from loomgen.target import SM_90A
from tests.runtime.projects import HEADER, NAMES, cubin_of, source_path, write_nvcc, write_project


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """An empty bundle in the place of the package's; nvcc is one that is quick."""
    nvcc, _ = write_nvcc(tmp_path / "tools")
    monkeypatch.setenv("LOOMGEN_NVCC", str(nvcc))
    empty = Bundle(tmp_path / "bundle")
    monkeypatch.setattr("loomgen.runtime.bundle.Bundle", lambda: empty)
    return empty


def build(root: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, ["--root", str(root), "build", "--arch", "sm_90a", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_it_holds_cubins_sources_headers_and_registry(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path / "project")
    assert f"bundled in {bundle.folder}" in build(tmp_path / "project", "--bundle")
    files = {path.relative_to(bundle.folder).as_posix() for path in bundle.folder.rglob("*") if path.is_file()}
    assert files == {
        "registry/registry_sm_90a.json",
        HEADER,
        *(source_path(name) for name in NAMES),
        "cubin/sm_90a/manifest.json",
        *(f"cubin/sm_90a/{name}.cubin" for name in NAMES),
    }
    monkeypatch.setenv("LOOMGEN_NVCC", "/nowhere/nvcc")
    kernels = load("sm_90a", bundle.folder).kernels
    store = CubinStore(root=bundle.folder, bundle=bundle)
    assert store.cubins(kernels, SM_90A) == {name: cubin_of(name) for name in NAMES}


def test_a_new_bundle_takes_the_place_of_the_old(bundle: Bundle, tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    build(tmp_path / "project", "--bundle")
    registry = write_project(tmp_path / "project", "changed")
    build(tmp_path / "project", "--bundle", "--stage", "first")
    assert sorted(path.name for path in (bundle.folder / "cubin" / "sm_90a").iterdir()) == [
        f"{NAMES[0]}.cubin",
        "manifest.json",
    ]
    store = CubinStore(root=bundle.folder, bundle=bundle)
    assert store.cubins(registry.kernels[:1], SM_90A) == {NAMES[0]: cubin_of(NAMES[0], "changed")}


def test_an_installed_package_may_build_its_bundle_anew(bundle: Bundle, tmp_path: Path) -> None:
    registry = write_project(tmp_path / "project")
    build(tmp_path / "project", "--bundle", "--stage", "first")
    build(bundle.folder, "--bundle")
    store = CubinStore(root=bundle.folder, bundle=bundle)
    assert store.cubins(registry.kernels, SM_90A) == {name: cubin_of(name) for name in NAMES}


def test_without_the_option_there_is_no_bundle(bundle: Bundle, tmp_path: Path) -> None:
    write_project(tmp_path / "project")
    assert "bundled" not in build(tmp_path / "project")
    assert not bundle.folder.exists()
