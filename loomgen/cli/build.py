"""``loomgen build``: compile the exported sources to cubins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from loomgen.cli.options import ArchOption, JobsOption, StageOption
from loomgen.cli.output import progress
from loomgen.cli.project import NoSuchStage, Project

if TYPE_CHECKING:
    from loomgen.toolchain.build import CubinJob


def build(ctx: typer.Context, arch: ArchOption = "all", stage: StageOption = None, jobs: JobsOption = None) -> None:
    """Compile the kernels of the registries with nvcc into build/cubin/<arch>/, in parallel, what is out of date."""
    project: Project = ctx.obj
    built = build_selection(project, arch, stage, jobs)
    typer.echo(f"{len(built)} cubins in {project.root / 'build' / 'cubin'}")


def build_selection(project: Project, arch: str, stage: str | None, n_parallel: int | None) -> tuple[CubinJob, ...]:
    """Build the selected kernels; returns their jobs."""
    from loomgen.toolchain.build import build_cubins
    from loomgen.toolchain.find import NINJA, NVCC, find_tool

    jobs = _jobs(project, arch, stage)
    nvcc, ninja = find_tool(NVCC), find_tool(NINJA)
    with progress("compiling") as update:
        build_cubins(jobs, root=project.root, nvcc=nvcc, ninja=ninja, n_parallel=n_parallel, on_progress=update)
    return jobs


def _jobs(project: Project, arch: str, stage: str | None) -> tuple[CubinJob, ...]:
    from loomgen.registry import load
    from loomgen.render import Selection
    from loomgen.target import select_targets
    from loomgen.toolchain.build import cubin_jobs

    selection = Selection(targets=select_targets(arch), stage_glob=stage)
    registered = [
        job for target in selection.targets for job in cubin_jobs(load(target.name, project.root), target, project.root)
    ]
    jobs = tuple(job for job in registered if selection.has_stage(job.kernel.stage))
    if stage is not None and not jobs:
        raise NoSuchStage(stage, (job.kernel.stage for job in registered))
    return jobs
