"""Running ``loomgen`` in a test, on a project of fake kernels."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loomgen.cli import app
from loomgen.cli.project import Project
from loomgen.ir.kernel import KernelSpec
from tests.render.fakes import HEADERS, fake_compiler


def loomgen(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--root", str(root), *arguments])


def use_kernels(monkeypatch: pytest.MonkeyPatch, *kernels: KernelSpec) -> None:
    """Let every project have ``kernels``, and a compiler that prints without compiling."""
    monkeypatch.setattr(Project, "kernels", lambda self: kernels)
    monkeypatch.setattr("loomgen.cli.render.compiler", fake_compiler)
    monkeypatch.setattr("loomgen.cli.render.headers", lambda: HEADERS)
