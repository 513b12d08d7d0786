"""The README names every command with its options, every folder and every document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_group

from loomgen.cli import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()

COMMANDS = get_group(app).commands

UNNAMED = {"--help", "--json"}
"""Options that the table leaves out: the text below it speaks of them, or nobody needs to."""


def section(title: str) -> str:
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    return str(text)


def first_cells() -> list[str]:
    """The code of the command table's first column."""
    return re.findall(r"^\| `([a-z].*?)` \| ", section("The command line"), re.MULTILINE)


def test_the_table_has_every_command_and_no_other() -> None:
    assert {cell.split()[0] for cell in first_cells()} == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_table_has_every_option_and_no_other(name: str) -> None:
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts if option.startswith("--")}
    rows = " ".join(cell for cell in first_cells() if cell.split()[0] == name)
    assert set(re.findall(r"--[a-z][a-z-]*", rows)) == options - UNNAMED


def test_the_layout_names_every_package_and_module() -> None:
    packages = {path.parent.name for path in (ROOT / "loomgen").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "loomgen").glob("[a-z]*.py")}
    rows = re.findall(r"^\| `loomgen/(.*?) \| ", section("Layout"), re.MULTILINE)
    assert set(re.findall(r"\w+", " ".join(rows))) - {"include", "loom", "py"} == packages | modules


FOLDERS = ("docs", "examples", "generated", "registry", "requirements", "specs", "tests", "tools")


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_layout_names_every_folder(folder: str) -> None:
    assert f"\n| `{folder}/` | " in section("Layout")


def test_every_document_is_linked() -> None:
    documents = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert documents - set(re.findall(r"\]\((docs/\w+\.md)\)", README)) == set()


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert [target for target in targets if not (ROOT / target).exists()] == []
