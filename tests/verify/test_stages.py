"""The chain of stages: rows, what stands in for a missing stage, what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from loomgen.cli.project import Project
from loomgen.emulator import EmulatorFault
from loomgen.errors import LoomgenError
from loomgen.ir.kernel import KernelSpec
from loomgen.verify import BOUNDS, ORDER, VerifyRow, verify_stages
from tests.verify.committed import ROOT, entry

KERNELS = Project(ROOT).kernels()


def kernel(stage: str) -> KernelSpec:
    return next(each for each in KERNELS if str(each.name) == entry(stage).name)


def verified(backend: str, kernels: Sequence[KernelSpec], root: Path = ROOT) -> list[VerifyRow]:
    told: list[tuple[str, int]] = []
    rows = verify_stages(
        kernels,
        "interp" if backend == "interp" else "emulate",
        (5, 0, 65),
        (1, 2),
        (0, 1),
        root=root,
        on_kernel=lambda name, seed: told.append((name, seed)),
    )
    assert sorted(told) == sorted((str(each.name), seed) for each in kernels for seed in (0, 1))
    return rows


@pytest.mark.parametrize("backend", ["interp", "emulate"])
def test_every_output_of_every_stage_is_within_its_bound(backend: str) -> None:
    rows = verified(backend, [kernel(stage) for stage in reversed(ORDER)])
    assert [(row.tensor, row.seed) for row in rows] == [
        (tensor, seed) for seed in (0, 1) for tensors in ORDER.values() for tensor in tensors
    ]
    assert [row for row in rows if not row.ok] == []
    assert {row.bits for row in rows} == ({None} if backend == "interp" else {True})
    assert all(row.rel_l2 <= row.bound == BOUNDS[row.tensor] for row in rows)


def test_every_kernel_is_within_its_bounds_for_its_own_dims_and_dtypes() -> None:
    known = [each for each in KERNELS if each.name.stage in ORDER]
    rows = verified("interp", known)
    assert {row.kernel for row in rows} == {str(each.name) for each in known}
    assert [row for row in rows if not row.ok] == [] and {row.exact_by for row in rows} == {"golden"}


def test_one_stage_alone_starts_from_the_rounded_results_of_those_before_it() -> None:
    rows = verified("interp", [kernel("fwd_o")])
    assert [(row.tensor, row.ok) for row in rows] == [("o", True), ("o", True)]


def test_a_stage_of_no_chain_is_compared_with_its_own_meaning() -> None:
    others = [each for each in KERNELS if each.name.stage not in ORDER]
    rows = verified("emulate", others)
    assert {row.kernel for row in rows} == {str(each.name) for each in others}
    assert [row for row in rows if not row.ok] == [] and {row.exact_by for row in rows} == {"its spec"}
    assert {row.bits for row in rows} == {True}


def test_a_registry_of_other_specs_is_refused() -> None:
    stale = replace(kernel("wy"), spec_digest="0" * 64)
    with pytest.raises(LoomgenError, match=r"wy__\S+ has another spec in the registry of sm_100a: run"):
        verified("emulate", [stale])
    unknown = replace(kernel("wy"), name=replace(kernel("wy").name, variant="wide"))
    with pytest.raises(LoomgenError, match=r"wide is missing from the registry of sm_100a: run `loomgen render`"):
        verified("emulate", [unknown])


def project_with(root: Path, old: str, new: str) -> Path:
    """The committed project with a change to the output stage's source."""
    for part in ("registry", "generated", "specs"):
        shutil.copytree(ROOT / part, root / part)
    (root / "build").symlink_to(ROOT / "build")  # the emulator is built once
    path = root / entry("fwd_o").source.path
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))
    return root


def test_the_emulated_source_is_the_one_that_lies_in_the_project(tmp_path: Path) -> None:
    root = project_with(tmp_path, "scale * acc", "1.001f * scale * acc")
    rows = verified("emulate", [kernel("fwd_o")], root)
    assert {(row.bits, row.ok) for row in rows} == {(False, False)}
    assert all(row.rel_l2 < row.bound for row in rows), "the bits alone tell"


def test_a_fault_names_the_statement_of_the_spec(tmp_path: Path) -> None:
    root = project_with(tmp_path, "cp_async_wait<2>();", "")
    with pytest.raises(EmulatorFault) as raised:
        verified("emulate", [kernel("fwd_o")], root)
    assert raised.value.statement is not None
    assert raised.value.statement.startswith("P[i,j] = ")
