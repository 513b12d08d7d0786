"""Whole kernels as text: what holds for every line."""

from __future__ import annotations

import re

import pytest

from loomgen.emit.cuda import emit_body
from loomgen.emit.printer import WIDTH
from tests.passes.gdn import ALL_STAGES, STAGES, lowered


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_a_kernel_is_one_function_of_short_lines(stage: str) -> None:
    kernel = lowered(stage)
    comment, _, function = emit_body(kernel).partition("LOOM_KERNEL")
    assert all(line.startswith("// ") for line in comment.splitlines())
    head, name, *lines = f"LOOM_KERNEL{function}".split("\n")
    assert head == f"LOOM_KERNEL({kernel.launch.threads}, {kernel.launch.min_blocks})"
    assert name.startswith(f"{kernel.kernel.name}(")
    assert lines[-2:] == ["}", ""]
    code = [line for line in lines if not line.lstrip().startswith("///")]
    assert stage not in STAGES or max(map(len, code)) <= WIDTH
    assert not [line for line in lines if line != line.rstrip()]
    assert "\n\n\n" not in "\n".join(lines)


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_every_wait_and_barrier_names_the_accesses_that_it_orders(stage: str) -> None:
    text = emit_body(lowered(stage))
    syncs = re.findall(r"^ *(?:sync_block|sync_warp|cp_async_wait<\d+>)\(\);(.*)$", text, re.MULTILINE)
    pairs = r"(?:read|write) \w+(?:, \w+)*(?: and \d+ more)? -> (?:read|write) \w+(?:, \w+)*(?: and \d+ more)?"
    assert all(re.fullmatch(rf"  // {pairs}(?:; {pairs})*", comment) for comment in syncs), syncs


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_every_statement_of_the_spec_is_named_above_its_code(stage: str) -> None:
    kernel = lowered(stage)
    text = emit_body(kernel)
    stores = [stmt.text for stmt in kernel.program.body if type(stmt).__name__ == "Store"]
    assert all(f"/// {statement}" in text for statement in stores)
