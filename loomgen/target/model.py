"""What a target is: names, compiler flags and limits."""

from __future__ import annotations

from dataclasses import dataclass

from loomgen.errors import LoomgenError


class UnknownTarget(LoomgenError):
    """A name that no target has."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        super().__init__(f"unknown target {name!r}: want one of {', '.join(known)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One architecture. Limits are those of the CUDA C++ Programming Guide's compute capability tables.

    ``source_group`` is the target whose directory holds the sources: targets of a group share a text.
    ``register_unit`` is the granularity, in registers, of a warp's allocation, and warps are placed ``warp_unit``
    at a time, one on each scheduler; ``shared_unit_bytes`` is the granularity of a block's shared memory, to
    which the driver adds ``reserved_shared_bytes`` for itself.
    """

    name: str
    source_group: str
    warp_size: int
    max_threads_per_block: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    max_registers_per_thread: int
    registers_per_sm: int
    register_unit: int
    warp_unit: int
    shared_bytes_per_sm: int
    max_shared_bytes_per_block: int
    reserved_shared_bytes: int
    shared_unit_bytes: int
    max_grid_x: int

    @property
    def gencode(self) -> str:
        """nvcc's flag for this architecture and no other."""
        number = self.name.removeprefix("sm_")
        return f"-gencode=arch=compute_{number},code=sm_{number}"
