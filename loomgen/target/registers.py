"""How a block's register file is shared out among roles (PTX ISA, setmaxnreg)."""

from __future__ import annotations

BLOCK_REGISTERS = 64 * 1024
REGISTER_STEP = 8
FEWEST_REGISTERS = 24
MOST_REGISTERS = 240
WARPGROUP_WARPS = 4


def launch_registers(n_threads: int) -> int:
    """What each thread of a block that fills an SM starts with."""
    return min(BLOCK_REGISTERS // n_threads // REGISTER_STEP * REGISTER_STEP, MOST_REGISTERS)
