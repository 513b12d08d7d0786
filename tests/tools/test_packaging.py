"""What the packaging files say of each other."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def requirements(name: str) -> list[str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return [line.split(";")[0].strip() for line in lines if line and not line.startswith("#")]


def project() -> dict[str, Any]:
    tomllib = import_module("tomllib")  # in the library of Python 3.11, which development needs and types do not assume
    document: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return document


def test_torch_is_pinned_and_comes_first() -> None:
    assert requirements("dev.txt")[0] == "torch==2.13.0"


def test_every_development_requirement_is_pinned() -> None:
    assert [line for line in requirements("dev.txt") + requirements("nvcc.txt") if line.count("==") != 1] == []


def test_the_compiler_that_users_get_is_the_one_developers_get() -> None:
    assert set(requirements("nvcc.txt")) <= set(project()["project"]["optional-dependencies"]["nvcc"])


def test_everything_the_package_imports_is_pinned_for_development() -> None:
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in requirements("dev.txt")}
    needed = {requirement.split(">=")[0] for requirement in project()["project"]["dependencies"]}
    assert needed <= pinned


def test_package_data_covers_every_file_that_is_not_python() -> None:
    patterns = project()["tool"]["setuptools"]["package-data"]["loomgen"]
    package = ROOT / "loomgen"
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    others = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert others - shipped == set()
