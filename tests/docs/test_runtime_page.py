"""The runtime's page names classes and functions that there are, with the parameters that they have."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

from loomgen.cli.project import default_root

ROOT = default_root()
PAGE = (ROOT / "docs" / "runtime.md").read_text()
MODULES = [import_module(f"loomgen.runtime.{path.stem}") for path in (ROOT / "loomgen" / "runtime").glob("[a-z]*.py")]
NAMED = re.compile(r"`((?:[A-Z][a-z]\w*|[a-z]+(?:_[a-z]+)+)(?:\.[a-z_]+)?)(?:\(([^`]*)\))?`")
"""``Class``, ``Class.method``, ``a_function``, each with or without what it is called with."""

STAGES = {path.stem for path in (ROOT / "specs" / "gdn").glob("*.yaml")}
NAMES = sorted(found for found in set(NAMED.findall(PAGE)) if found[0] not in STAGES)


@pytest.mark.parametrize(("name", "given"), NAMES)
def test_what_the_page_names_is_there(name: str, given: str) -> None:
    owner, _, member = name.partition(".")
    (found,) = {vars(module)[owner] for module in MODULES if owner in vars(module)}
    named = getattr(found, member) if member else found
    if given:
        parameters = [x for x in inspect.signature(named).parameters if x != "self"]
        words = given.split(", ")
        assert len(words) <= len(parameters)
        assert [x for x, word in zip(parameters, words, strict=False) if word.isidentifier() and word != x] == []


def test_the_page_names_something() -> None:
    assert {"CubinStore.cubins", "prepare_plan", "LaunchPlan.run", "DriverError"} <= {name for name, _ in NAMES}
