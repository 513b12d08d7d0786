"""What the packaging files say of each other."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def requirements(name: str) -> list[str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return [line.split(";")[0].strip() for line in lines if line and not line.startswith("#")]


def project() -> dict[str, Any]:
    tomllib = import_module("tomllib")  # in the library of Python 3.11, which development needs and types do not assume
    document: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return document


def pins() -> dict[str, str]:
    """The versions that development installs, by package."""
    pairs = (line.split("==") for line in requirements("dev.txt") + requirements("nvcc.txt"))
    return {canonicalize_name(name): version for name, version in pairs}


def test_torch_is_pinned_and_comes_first() -> None:
    assert requirements("dev.txt")[0].startswith("torch==")


def test_make_takes_its_versions_from_the_requirements() -> None:
    commands = subprocess.run(
        ["make", "--dry-run", "--always-make", ".venv/.ready"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert f"install --quiet torch=={pins()['torch']}\n" in commands
    assert "==" not in (ROOT / "Makefile").read_text().replace("'^torch=='", "")


def test_every_development_requirement_is_pinned() -> None:
    assert [line for line in requirements("dev.txt") + requirements("nvcc.txt") if line.count("==") != 1] == []


def test_the_compiler_that_users_get_is_the_one_developers_get() -> None:
    assert set(requirements("nvcc.txt")) <= set(project()["project"]["optional-dependencies"]["nvcc"])


@pytest.mark.parametrize("extra", [None, "dev", "nvcc", "transformers"])
def test_what_is_pinned_for_development_is_what_the_package_asks_for(extra: str | None) -> None:
    asked = project()["project"]
    needed = asked["dependencies"] if extra is None else asked["optional-dependencies"][extra]
    pinned = pins()
    assert [text for text in needed if not _is_met(Requirement(text), pinned)] == []


def _is_met(requirement: Requirement, pinned: Mapping[str, str]) -> bool:
    version = pinned.get(canonicalize_name(requirement.name))
    return version is not None and version in requirement.specifier


def test_package_data_covers_every_file_that_is_not_python() -> None:
    patterns = project()["tool"]["setuptools"]["package-data"]["loomgen"]
    package = ROOT / "loomgen"
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    others = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert others - shipped == set()
