"""Where programs are looked for, in which order, and what is said when they are nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomgen.toolchain.find import (
    GXX,
    NINJA,
    NVCC,
    MissingTool,
    OutdatedTool,
    find_tool,
    is_older,
    newest_gxx,
    parse_version,
    tool_version,
)
from tests.toolchain.programs import program


def test_the_variable_comes_first(tmp_path: Path) -> None:
    mine = program(tmp_path / "mine" / "my-nvcc")
    program(tmp_path / "bin" / "nvcc")
    environ = {"LOOMGEN_NVCC": str(mine), "PATH": str(tmp_path / "bin")}
    assert find_tool(NVCC, environ, tmp_path, tmp_path) == mine


def test_a_variable_that_names_nothing_is_an_error_not_a_fallback(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "nvcc")
    environ = {"LOOMGEN_NVCC": str(tmp_path / "none"), "PATH": str(tmp_path / "bin")}
    with pytest.raises(MissingTool, match="which LOOMGEN_NVCC says"):
        find_tool(NVCC, environ, tmp_path, tmp_path)


def test_path_then_scripts_then_wheels(tmp_path: Path) -> None:
    wheel = program(tmp_path / "packages" / "nvidia" / "cu13" / "bin" / "nvcc")
    environ = {"PATH": str(tmp_path / "bin")}
    folders = (tmp_path / "packages", tmp_path / "scripts")
    assert find_tool(NVCC, environ, *folders) == wheel
    script = program(tmp_path / "scripts" / "nvcc")
    assert find_tool(NVCC, environ, *folders) == script
    system = program(tmp_path / "bin" / "nvcc")
    assert find_tool(NVCC, environ, *folders) == system


def test_a_missing_tool_says_what_it_is_for_and_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingTool) as caught:
        find_tool(NINJA, {"PATH": str(tmp_path)}, tmp_path, tmp_path)
    assert str(caught.value) == (
        "ninja was not found (needed for running builds); pip install ninja, or set LOOMGEN_NINJA"
    )


def nvcc(path: Path, version: str) -> Path:
    return program(path, f"Cuda compilation tools, release {version[:4]}, V{version}")


def test_what_is_too_old_is_passed_over(tmp_path: Path) -> None:
    nvcc(tmp_path / "old" / "nvcc", "12.4.131")
    recent = nvcc(tmp_path / "recent" / "nvcc", "13.0.88")
    environ = {"PATH": f"{tmp_path / 'old'}:{tmp_path / 'recent'}"}
    assert find_tool(NVCC, environ, tmp_path, tmp_path) == recent
    wheel = nvcc(tmp_path / "packages" / "nvidia" / "cu13" / "bin" / "nvcc", "13.0.88")
    assert find_tool(NVCC, {"PATH": str(tmp_path / "old")}, tmp_path / "packages", tmp_path) == wheel


@pytest.mark.parametrize("variable", ["LOOMGEN_CXX", "PATH"])
def test_where_all_is_too_old_the_first_is_named(variable: str, tmp_path: Path) -> None:
    old = program(tmp_path / "g++", "g++ (GCC) 8.5.0")
    environ = {"PATH": str(tmp_path), variable: str(old if variable == "LOOMGEN_CXX" else tmp_path)}
    with pytest.raises(OutdatedTool) as caught:
        find_tool(GXX, environ, tmp_path, tmp_path)
    assert str(caught.value).startswith(f"g++ 8.5.0 at {old} is older than 9 (needed for the emulator")


@pytest.mark.parametrize(
    ("version", "older"),
    [("12.8.93", True), ("12.9.86", False), ("12.10.1", False), ("13.0.88", False), ("unknown", False)],
)
def test_an_nvcc_that_does_not_know_every_target_is_too_old(version: str, older: bool) -> None:
    assert is_older(version, NVCC.oldest) is older


@pytest.mark.parametrize(("version", "newest"), [("12.9.86", 14), ("13.0.88", 15), ("99.0.1", None), ("unknown", None)])
def test_the_newest_compiler_that_nvcc_accepts(version: str, newest: int | None) -> None:
    assert newest_gxx(version) == newest


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022\n", "12.2.0"),
        ("nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n", "13.0.88"),
        ("1.11.1\n", "1.11.1"),
        ("nothing here\n", "unknown"),
        ("", "unknown"),
    ],
)
def test_parse_version(text: str, version: str) -> None:
    assert parse_version(text) == version


def test_tool_version_asks_the_program(tmp_path: Path) -> None:
    assert tool_version(program(tmp_path / "tool", "1.2.3")) == "1.2.3"
    assert tool_version(tmp_path / "none") == "unknown"
