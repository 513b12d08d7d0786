"""``loomgen build``: compile the exported sources to cubins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loomgen.cli.options import ArchOption, JobsOption, StageOption
from loomgen.cli.output import progress
from loomgen.cli.project import NoSuchStage, Project

if TYPE_CHECKING:
    from loomgen.toolchain.build import CubinJob


BundleOption = Annotated[
    bool, typer.Option("--bundle", help="Also copy them, sources and registries into the package, for a wheel.")
]


def build(
    ctx: typer.Context,
    arch: ArchOption = "all",
    stage: StageOption = None,
    jobs: JobsOption = None,
    bundle: BundleOption = False,
) -> None:
    """Compile the kernels of the registries with nvcc into build/cubin/<arch>/, in parallel, what is out of date."""
    project: Project = ctx.obj
    built = build_selection(project, arch, stage, jobs)
    typer.echo(f"{len(built)} cubins in {project.root / 'build' / 'cubin'}")
    if bundle:
        typer.echo(f"bundled in {_bundle(project, built)}")


def build_selection(project: Project, arch: str, stage: str | None, n_parallel: int | None) -> tuple[CubinJob, ...]:
    """Build the selected kernels; returns their jobs."""
    from loomgen.toolchain.build import BuildTools, build_cubins

    jobs = _jobs(project, arch, stage)
    tools = BuildTools.find()
    with progress("compiling") as update:
        build_cubins(
            jobs,
            folder=project.root / "build",
            include=project.root / "generated" / "include",
            tools=tools,
            n_parallel=n_parallel,
            on_progress=update,
        )
    return jobs


def _bundle(project: Project, built: Sequence[CubinJob]) -> Path:
    """Put what was built into the package's bundle; returns its folder."""
    from loomgen.registry import load
    from loomgen.runtime.bundle import Bundle
    from loomgen.toolchain.find import NVCC, find_tool, tool_version

    bundle, version = Bundle(), tool_version(find_tool(NVCC))
    for target in dict.fromkeys(job.target for job in built):
        cubins = {job.kernel.name: job.cubin for job in built if job.target == target}
        bundle.write(load(target.name, project.root), target, project.root, cubins, version)
    return bundle.folder


def _jobs(project: Project, arch: str, stage: str | None) -> tuple[CubinJob, ...]:
    from loomgen.ir.kernel import KernelName
    from loomgen.registry import load
    from loomgen.render import Selection
    from loomgen.target import select_targets
    from loomgen.toolchain.build import cubin_jobs

    selection = Selection(targets=select_targets(arch), stage_glob=stage)
    registered = [
        job for target in selection.targets for job in cubin_jobs(load(target.name, project.root), target, project.root)
    ]
    jobs = tuple(job for job in registered if selection.has(KernelName.parse(job.kernel.name)))
    if stage is not None and not jobs:
        raise NoSuchStage(stage, (job.kernel.stage for job in registered))
    return jobs
