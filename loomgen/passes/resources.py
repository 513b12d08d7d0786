"""Resource check: a kernel fits its target.

Holds after `allocate`: threads and shared memory of a block are within the target's limits, and ``min_blocks`` blocks
fit on an SM by threads and shared memory together (registers are the census's concern: ptxas knows them).
"""

from __future__ import annotations

from loomgen.errors import Diagnostic, SpecError
from loomgen.ir.kernel import KernelSpec
from loomgen.ir.plan import SharedBuffer, SharedLayout, Team
from loomgen.ir.schedule import Role
from loomgen.spec.codes import Code
from loomgen.target import Target, occupancy
from loomgen.target.registers import (
    FEWEST_REGISTERS,
    MOST_REGISTERS,
    REGISTER_STEP,
    WARPGROUP_WARPS,
    launch_registers,
)

_SHOWN_BUFFERS = 4
_FEWEST_REGISTERS = 1


def check_resources(kernel: KernelSpec, target: Target, team: Team, layout: SharedLayout) -> None:
    """Raises SpecError, at the schedule's key if one asks for it, with what is too much and the largest buffers."""
    if team.threads > target.max_threads_per_block:
        message = f"{team.warps} warps are {team.threads} threads; a block has at most {target.max_threads_per_block}"
        raise _too_much(
            kernel, target, message, "give `rows` a smaller index, or split it `across` fewer warps", "warps", "rows"
        )
    _check_roles(kernel, target, team)
    limit = target.max_shared_bytes_per_block
    if layout.n_bytes > limit:
        message = f"a block needs {_kib(layout.n_bytes)} of shared memory and has at most {_kib(limit)}"
        raise _too_much(kernel, target, message, largest_buffers(layout), "rings")
    wanted = kernel.schedule.min_blocks or 1
    fits = occupancy(target, threads=team.threads, registers=_FEWEST_REGISTERS, shared_bytes=layout.n_bytes)
    if fits.blocks < wanted:
        each = f"{team.threads} threads and {_kib(layout.n_bytes)} of shared memory"
        message = f"min_blocks: {wanted}, but {fits.blocks} blocks of {each} fit on an SM"
        raise _too_much(kernel, target, message, largest_buffers(layout), "min_blocks")


def _check_roles(kernel: KernelSpec, target: Target, team: Team) -> None:
    """Whole warpgroups, whose registers together are the block's."""
    wanted = 0
    for role in kernel.schedule.roles:
        registers = role.registers or launch_registers(team.threads)
        wanted += registers * role.warps * target.warp_size
        if role.warps % WARPGROUP_WARPS:
            message = f"role {role.name} has {role.warps} warps: want whole warpgroups of {WARPGROUP_WARPS}"
            raise _bad_roles(kernel, message, role)
        if registers % REGISTER_STEP or not FEWEST_REGISTERS <= registers <= MOST_REGISTERS:
            choice = f"from {FEWEST_REGISTERS} to {MOST_REGISTERS} by {REGISTER_STEP}"
            raise _bad_roles(kernel, f"role {role.name} has {registers} registers a thread: want {choice}", role)
    if wanted > target.registers_per_sm:
        raise _bad_roles(kernel, f"the roles have {wanted} registers and an SM has {target.registers_per_sm}")


def _bad_roles(kernel: KernelSpec, message: str, role: Role | None = None) -> SpecError:
    keys = ("roles",) if role is None else (f"roles.{role.name}",)
    span = kernel.schedule.span(*keys) or kernel.program.span
    chain = (f"in {kernel.name}",)
    return SpecError([Diagnostic(code=Code.ROLE_WARPS.value, message=message, span=span, chain=chain)])


def largest_buffers(layout: SharedLayout) -> str:
    """The buffers that take most, for a hint: ``largest: wc 32 KiB (2 slots), ...``."""
    buffers = sorted((buffer for buffer, _ in layout.offsets), key=lambda buffer: (-buffer.n_bytes, buffer.name))
    shown = ", ".join(_described(buffer) for buffer in buffers[:_SHOWN_BUFFERS])
    return f"largest: {shown}" if shown else "no shared memory is used"


def _described(buffer: SharedBuffer) -> str:
    slots = f" ({buffer.slots} slots)" if buffer.slots > 1 else ""
    return f"{buffer.name} {_kib(buffer.n_bytes)}{slots}"


def _kib(n_bytes: int) -> str:
    return f"{n_bytes / 1024:.4g} KiB"


def _too_much(kernel: KernelSpec, target: Target, message: str, hint: str, *keys: str) -> SpecError:
    chain = (f"in {kernel.name}, for {target.name}",)
    span = kernel.schedule.span(*keys) or kernel.program.span
    return SpecError([Diagnostic(code=Code.TOO_LARGE.value, message=message, span=span, hint=hint, chain=chain)])
