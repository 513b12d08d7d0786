"""Where programs are looked for, in which order, and what is said when they are nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomgen.toolchain.find import NINJA, NVCC, MissingTool, find_tool, parse_version, tool_version


def program(path: Path, output: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{output}'\n")
    path.chmod(0o755)
    return path


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
