"""How many blocks of a kernel an SM holds at once."""

from __future__ import annotations

from dataclasses import dataclass

from loomgen.target.model import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """``blocks`` and ``warps`` resident on an SM, and what keeps them from being more."""

    blocks: int
    warps: int
    limiter: str


def occupancy(target: Target, *, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Occupancy of a block of ``threads`` threads with ``registers`` each and ``shared_bytes`` of static and
    dynamic shared memory together. A block that does not fit at all has 0 blocks."""
    n_warps = _ceil_div(threads, target.warp_size)
    block_shared_bytes = _round_up(shared_bytes + target.reserved_shared_bytes, target.shared_unit_bytes)
    limits = {
        "blocks": target.max_blocks_per_sm,
        "threads": target.max_threads_per_sm // (n_warps * target.warp_size),
        "registers": _warps_by_registers(target, registers) // _round_up(n_warps, target.warp_unit),
        "shared": target.shared_bytes_per_sm // block_shared_bytes,
    }
    limiter = min(limits, key=lambda name: limits[name])
    return Occupancy(blocks=limits[limiter], warps=limits[limiter] * n_warps, limiter=limiter)


def _warps_by_registers(target: Target, registers: int) -> int:
    """Warps whose registers fit on an SM: each scheduler has its own share of the register file."""
    warp_registers = _round_up(registers * target.warp_size, target.register_unit)
    warps_per_scheduler = target.registers_per_sm // target.warp_unit // warp_registers
    return warps_per_scheduler * target.warp_unit


def _ceil_div(value: int, unit: int) -> int:
    return -(-value // unit)


def _round_up(value: int, unit: int) -> int:
    return _ceil_div(value, unit) * unit
