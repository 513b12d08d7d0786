"""A pytest plugin: FLA's tests run with loomgen as a backend of its dispatch, and each test tells what that was asked.

Those that loomgen can run come first. Given to pytest with ``-p tools.fla_plugin``, which workers of pytest-xdist heed.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from loomgen.integrations import fla
from loomgen.ops.dispatch import ACTIVATIONS, HEAD_DIMS

PROPERTY = "loomgen"
"""The property of a test's report that holds what was seen of it."""

DISABLED = "FLA_DISABLE_BACKEND_DISPATCH"

BEGIN_BEFORE = "--begin-before"


@dataclass(slots=True)
class Seen:
    """Calls that loomgen ran, those of them whose results have a gradient, and why it left others to FLA."""

    calls: int = 0
    differentiable: int = 0
    left: list[str] = field(default_factory=list)


@contextmanager
def watched() -> Iterator[Seen]:
    """What FLA's dispatch asks of loomgen inside the context."""
    seen = Seen()

    def verify(_: fla.Adapter, *arguments: Any, **options: Any) -> tuple[bool, str | None]:
        reason = fla.why_not(fla.FlaCall(*arguments, **options))
        if reason is not None:
            seen.left.append(reason)
        return reason is None, reason

    def run(_: fla.Adapter, *arguments: Any, **options: Any) -> Any:
        results = fla.run(fla.FlaCall(*arguments, **options))
        seen.calls += 1
        seen.differentiable += results[0].requires_grad
        return results

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fla.Adapter, "chunk_gated_delta_rule_verifier", verify)
        patch.setattr(fla.Adapter, "chunk_gated_delta_rule", run)
        yield seen


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(BEGIN_BEFORE, type=float, default=math.inf, help="no test is begun later, by time.time()")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A stable order: what is left to FLA compiles and tunes its kernels for minutes, and waits."""
    items.sort(key=lambda item: not may_reach_loomgen(item))


def may_reach_loomgen(item: pytest.Item) -> bool:
    """By what FLA calls its parameters. Whether the test calls a function that loomgen has, they do not say."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return parameters.get("D") in HEAD_DIMS and parameters.get("dtype", ACTIVATIONS[0]) in ACTIVATIONS


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Takes tests that would begin too late upon itself, and does nothing: they have no report."""
    return True if time.time() > item.config.getoption(BEGIN_BEFORE) else None


def pytest_configure() -> None:
    if os.environ.get(DISABLED) == "1":
        raise pytest.UsageError(f"{DISABLED}=1: FLA would not ask loomgen")
    fla.register()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """FLA has read by now whether its dispatch is on. Set from here on, the variable only tells the tests not to skip
    grouped heads, as they do for the sake of another backend.
    """
    with pytest.MonkeyPatch.context() as patch, watched() as seen:
        patch.setenv(DISABLED, "1")
        try:
            return (yield)
        finally:
            item.user_properties.append((PROPERTY, asdict(seen)))
