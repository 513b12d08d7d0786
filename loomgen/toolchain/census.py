"""The census: what each compiled kernel takes of its target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loomgen.target import Occupancy, occupancy
from loomgen.toolchain.build import CubinJob
from loomgen.toolchain.ptxas import Resources, parse_resources
from loomgen.toolchain.sass import disassemble, instruction_mix


@dataclass(frozen=True, slots=True, kw_only=True)
class CensusRow:
    """One kernel on one target. ``instructions`` counts SASS instructions by opcode, in the text, not as run."""

    target: str
    kernel: str
    resources: Resources
    dynamic_shared_bytes: int
    occupancy: Occupancy
    instructions: dict[str, int]

    def faults(self, *, strict: bool) -> tuple[str, ...]:
        """What must not be: ptxas's warnings of serialised MMAs; under ``strict`` a spill or a stack frame too."""
        resources = self.resources
        spilled = (
            f"{resources.stack_bytes} bytes stack, {resources.spill_store_bytes} bytes spill stores,"
            f" {resources.spill_load_bytes} bytes spill loads"
        )
        reasons = (*resources.warnings, *((spilled,) if strict and resources.spills else ()))
        return tuple(f"{self.target} {self.kernel}: {reason}" for reason in reasons)


def census_row(job: CubinJob, nvdisasm: Path) -> CensusRow:
    """The row of a job that was built."""
    resources = parse_resources(job.log.read_text(encoding="utf-8"), job.kernel.symbol)
    launch = job.kernel.launch
    return CensusRow(
        target=job.target.name,
        kernel=job.kernel.name,
        resources=resources,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        occupancy=occupancy(
            job.target,
            threads=launch.threads,
            registers=resources.registers,
            shared_bytes=resources.static_shared_bytes + launch.dynamic_shared_bytes,
        ),
        instructions=instruction_mix(disassemble(nvdisasm, job.cubin)),
    )
