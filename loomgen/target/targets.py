"""The targets that loomgen emits for."""

from __future__ import annotations

from dataclasses import replace

from loomgen.target.model import Target, UnknownTarget

_KIB = 1024

SM_90A = Target(
    name="sm_90a",
    source_group="sm_90a",
    warp_size=32,
    max_threads_per_block=1024,
    max_threads_per_sm=2048,
    max_blocks_per_sm=32,
    max_registers_per_thread=255,
    registers_per_sm=64 * _KIB,
    register_unit=256,
    warp_unit=4,
    shared_bytes_per_sm=228 * _KIB,
    max_shared_bytes_per_block=227 * _KIB,
    reserved_shared_bytes=1 * _KIB,
    shared_unit_bytes=128,
    max_grid_x=2**31 - 1,
)
"""Hopper: H100, H200."""

SM_100A = replace(SM_90A, name="sm_100a", source_group="sm_100a")
"""Blackwell: B200. What loomgen uses of it has Hopper's limits."""

SM_103A = replace(SM_100A, name="sm_103a")
"""Blackwell Ultra: B300; the same sources as sm_100a."""

TARGETS = (SM_90A, SM_100A, SM_103A)


def target_named(name: str) -> Target:
    """The target called ``name``; raises :class:`UnknownTarget`."""
    for target in TARGETS:
        if target.name == name:
            return target
    raise UnknownTarget(name, tuple(target.name for target in TARGETS))


def select_targets(name: str) -> tuple[Target, ...]:
    """The target called ``name``, or every target for ``all``; raises :class:`UnknownTarget`."""
    return TARGETS if name == "all" else (target_named(name),)
