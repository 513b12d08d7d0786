"""Building cubins with the real nvcc and ninja, and the census of what comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomgen.target import SM_90A, SM_100A, SM_103A, TARGETS, Target
from loomgen.toolchain.build import BuildTools, CubinJob, build_cubins, cubin_jobs, ninja_text
from loomgen.toolchain.census import census_row
from loomgen.toolchain.errors import BuildFailed
from loomgen.toolchain.find import NVDISASM, find_tool
from tests.toolchain.programs import program
from tests.toolchain.projects import HEADER_PATH, NAME, SOURCE_PATH, SPILLING, registry, write_project


def jobs_for(root: Path, *targets: Target) -> tuple[CubinJob, ...]:
    return tuple(job for target in targets for job in cubin_jobs(registry(target.name), target, root))


def run(root: Path, jobs: tuple[CubinJob, ...]) -> list[tuple[int, int]]:
    """Build and return the progress reports."""
    seen: list[tuple[int, int]] = []
    build_cubins(
        jobs,
        folder=root / "build",
        include=root / "generated" / "include",
        tools=BuildTools.find(),
        n_parallel=2,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    return seen


def test_ninja_text_quotes_paths_and_names_the_target() -> None:
    (job,) = jobs_for(Path("/a b/$c"), SM_100A)
    tools = BuildTools(nvcc=Path("/opt/n v/nvcc"), ninja=Path("/opt/ninja"))
    text = ninja_text([job], tools, Path("/a b/$c/generated/include"))
    assert "  command = '/opt/n v/nvcc' -std=c++17 -O3 -fmad=false -Xptxas=-v,-warn-spills" in text
    assert "-I'/a b/$$c/generated/include'" in text
    assert f"build /a$ b/$$c/build/cubin/sm_100a/{NAME}.cubin: cubin /a$ b/$$c/{SOURCE_PATH}\n" in text
    assert "  gencode = -gencode=arch=compute_100a,code=sm_100a\n" in text


def test_a_chosen_compiler_is_nvccs_too() -> None:
    (job,) = jobs_for(Path("/root"), SM_100A)
    tools = BuildTools(nvcc=Path("/opt/nvcc"), ninja=Path("/opt/ninja"), host_compiler=Path("/opt/g n/g++-12"))
    text = ninja_text([job], tools, Path("/include"))
    assert "-Xptxas=-v,-warn-spills -ccbin='/opt/g n/g++-12' -I'/include' $gencode" in text


def test_a_compiler_is_chosen_by_its_variable_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = program(tmp_path / "my-g++", "g++ 12.2.0")
    monkeypatch.delenv("LOOMGEN_CXX", raising=False)
    assert BuildTools.find().host_compiler is None
    monkeypatch.setenv("LOOMGEN_CXX", str(chosen))
    assert BuildTools.find().host_compiler == chosen


def test_nvcc_runs_the_chosen_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    chosen = tmp_path / "my-g++"
    chosen.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec g++ "$@"\n')
    chosen.chmod(0o755)
    monkeypatch.setenv("LOOMGEN_CXX", str(chosen))
    root = write_project(tmp_path / "project")
    assert run(root, jobs_for(root, SM_90A)) == [(1, 1)]
    assert SOURCE_PATH in calls.read_text()


def test_every_target_compiles_and_takes_no_stack(tmp_path: Path) -> None:
    root = write_project(tmp_path / "a folder")
    jobs = jobs_for(root, *TARGETS)
    assert run(root, jobs)[-1] == (3, 3)
    rows = [census_row(job, find_tool(NVDISASM)) for job in jobs]
    assert [row.target for row in rows] == ["sm_90a", "sm_100a", "sm_103a"]
    for row in rows:
        assert not row.resources.spills
        assert row.resources.static_shared_bytes == 512
        assert row.instructions["BAR"] == 1
        assert (row.instructions["LDS"], row.instructions["STS"]) == (1, 1)
        assert row.occupancy.blocks == 16
        assert row.faults(strict=True) == ()


def test_only_what_is_out_of_date_is_built_again(tmp_path: Path) -> None:
    root = write_project(tmp_path)
    jobs = jobs_for(root, SM_90A)
    assert run(root, jobs) == [(1, 1)]
    assert run(root, jobs) == []
    (root / HEADER_PATH).write_text("#pragma once\n#define BLOCK 64\n")
    assert run(root, jobs) == [(1, 1)]
    assert census_row(jobs[0], find_tool(NVDISASM)).resources.static_shared_bytes == 256
    jobs[0].log.unlink()
    assert run(root, jobs) == [(1, 1)]
    assert jobs[0].log.exists()


def test_an_error_is_shown_as_nvcc_prints_it(tmp_path: Path) -> None:
    root = write_project(tmp_path, source="this is not CUDA\n")
    with pytest.raises(BuildFailed, match="this is not CUDA"):
        run(root, jobs_for(root, SM_103A))


def test_spills_are_faults_under_strict_only(tmp_path: Path) -> None:
    root = write_project(tmp_path, source=SPILLING)
    (job,) = jobs_for(root, SM_100A)
    run(root, (job,))
    row = census_row(job, find_tool(NVDISASM))
    assert row.faults(strict=False) == ()
    (fault,) = row.faults(strict=True)
    assert fault.startswith(f"sm_100a {NAME}: ")
    assert "bytes spill stores" in fault
