"""``loomgen census``: what each kernel takes of its target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from loomgen.cli.build import build_selection
from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.options import ArchOption, JobsOption, JsonOption, StageOption
from loomgen.cli.output import counting, show

if TYPE_CHECKING:
    from loomgen.toolchain.census import CensusRow


def census(
    ctx: typer.Context,
    arch: ArchOption = "all",
    stage: StageOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on any spill or stack frame.")] = False,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compile, then print registers, stack, spills, shared memory, occupancy and instruction mix of every kernel.

    Exits 1 when ptxas says that it serialised an MMA (C75xx) and, with --strict, on any spill or stack frame.
    """
    from loomgen.toolchain.census import census_row
    from loomgen.toolchain.find import NVDISASM, find_tool

    nvdisasm = find_tool(NVDISASM)
    built = build_selection(ctx.obj, arch, stage, jobs)
    rows: list[CensusRow] = []
    with counting("disassembling", len(built)) as on_kernel:
        for job in built:
            rows.append(census_row(job, nvdisasm))
            on_kernel()
    _show(rows, as_json=as_json)
    faults = [fault for row in rows for fault in row.faults(strict=strict)]
    for fault in faults:
        typer.echo(f"error: {fault}", err=True)
    if faults:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _show(rows: list[CensusRow], *, as_json: bool) -> None:
    from loomgen.toolchain.sass import FEATURED

    flat = [_flat(row) for row in rows]
    if as_json:
        show(flat, {}, as_json=True)
        return
    featured = [opcode for opcode in FEATURED if any(opcode in row.instructions for row in rows)]
    table = [{**row, **{opcode: row["instructions"].get(opcode, 0) for opcode in featured}} for row in flat]
    columns = {
        "target": "target",
        "kernel": "kernel",
        "registers": "regs",
        "stack_bytes": "stack",
        "spill_store_bytes": "spill st",
        "spill_load_bytes": "spill ld",
        "shared_bytes": "shared",
        "blocks_per_sm": "blocks/SM",
        "limiter": "limited by",
        **{opcode: opcode for opcode in featured},
    }
    show(table, columns, as_json=False)


def _flat(row: CensusRow) -> dict[str, Any]:
    resources = row.resources
    return {
        "target": row.target,
        "kernel": row.kernel,
        "registers": resources.registers,
        "stack_bytes": resources.stack_bytes,
        "spill_store_bytes": resources.spill_store_bytes,
        "spill_load_bytes": resources.spill_load_bytes,
        "shared_bytes": resources.static_shared_bytes + row.dynamic_shared_bytes,
        "blocks_per_sm": row.occupancy.blocks,
        "warps_per_sm": row.occupancy.warps,
        "limiter": row.occupancy.limiter,
        "warnings": list(resources.warnings),
        "instructions": row.instructions,
    }
