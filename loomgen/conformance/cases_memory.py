"""Cases of copy.cuh, layout.cuh, kernel.cuh, shuffle.cuh and sync.cuh: what lies or goes where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loomgen.conformance.case import Case
from loomgen.conformance.compare import Array, Bitwise
from loomgen.conformance.inputs import distinct

_BITWISE = Bitwise()
_THREADS = 128

MOVED_TYPES = {
    "bf16": (np.uint16, 1),
    "f16": (np.uint16, 1),
    "float": (np.uint32, 1),
    "uint32_t": (np.uint32, 1),
    "int32_t": (np.uint32, 1),
    "uint64_t": (np.uint64, 1),
    "int64_t": (np.uint64, 1),
    "f32x2": (np.uint32, 2),
    "f32x4": (np.uint32, 4),
    "u32x4": (np.uint32, 4),
}
"""The types that loads and stores are tried with: their words, as integers, and how many of them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A tile's element type, row pitch in elements and swizzle."""

    element: str
    pitch: int
    swizzle: int

    @property
    def element_bytes(self) -> int:
        return 4 if self.element == "float" else 2


LAYOUTS = (
    *(Layout("bf16", pitch, 1) for pitch in (16, 32, 64, 128)),
    *(Layout("bf16", pitch, 2) for pitch in (32, 64, 128)),
    *(Layout("bf16", pitch, 3) for pitch in (64, 128, 256)),
    Layout("bf16", 48, 1),
    Layout("bf16", 96, 2),
    *(Layout("bf16", pitch, 0) for pitch in (16, 24, 32, 40, 64, 72, 128, 136)),
    Layout("float", 8, 1),
    Layout("float", 16, 2),
    *(Layout("float", pitch, 3) for pitch in (32, 64, 128)),
    *(Layout("float", pitch, 0) for pitch in (8, 16, 20, 24, 32, 36, 40, 64, 68, 72, 128, 132, 136)),
)
"""The layouts whose addresses are compared."""


def memory_cases() -> tuple[Case, ...]:
    """One case or more for each function of the five headers, :func:`copy_past_the_end` excepted."""
    moved = (case for element in MOVED_TYPES for case in _moves(element))
    return (*moved, *_asynchronous_copies(), *map(_layout, LAYOUTS), _advance(), *_places(), *_shuffles(), *_barriers())


def _distinct(n: int, dtype: npt.DTypeLike) -> Callable[[], tuple[Array, ...]]:
    return lambda: (distinct(n, dtype),)


def _nothing() -> tuple[Array, ...]:
    return ()


def _moves(element: str) -> tuple[Case, Case]:
    """An element through registers, and through shared memory."""
    dtype, n_words = MOVED_TYPES[element]
    n_blocks = 4
    n = n_blocks * _THREADS * n_words
    through_registers = Case(
        name=f"copy_global_{element}",
        primitives=("ld_global", "st_global"),
        source="copy",
        kernel=f"copy_global_{element}",
        inputs=_distinct(n, dtype),
        output_dtype=dtype,
        output_shape=(n,),
        grid=n_blocks,
        block=_THREADS,
        comparison=_BITWISE,
    )
    through_shared = Case(
        name=f"copy_shared_{element}",
        primitives=("ld_shared", "st_shared"),
        source="copy",
        kernel=f"copy_shared_{element}",
        inputs=_distinct(n, dtype),
        output_dtype=dtype,
        output_shape=(n,),
        grid=n_blocks,
        block=_THREADS,
        shared_bytes=_THREADS * n_words * np.dtype(dtype).itemsize,
        comparison=_BITWISE,
    )
    return through_registers, through_shared


def _asynchronous_copies() -> tuple[Case, ...]:
    return (
        _copy("copy_async_16", "cp_async_16(SharedAddr, const void*)", n_words=4),
        _copy("copy_async_16_predicated", "cp_async_16(SharedAddr, const void*, bool)", n_words=4),
        _copy("copy_async_4", "cp_async_4(SharedAddr, const void*)", n_words=1),
        _copy("copy_async_4_predicated", "cp_async_4(SharedAddr, const void*, bool)", n_words=1),
        *(_grouped_copies(pending) for pending in range(4)),
    )


def _copy(kernel: str, primitive: str, *, n_words: int) -> Case:
    n_blocks = 2
    n = n_blocks * _THREADS * n_words
    return Case(
        name=kernel,
        primitives=(primitive,),
        source="copy",
        kernel=kernel,
        inputs=_distinct(n, np.uint32),
        output_dtype=np.uint32,
        output_shape=(n,),
        grid=n_blocks,
        block=_THREADS,
        shared_bytes=_THREADS * n_words * 4,
        comparison=_BITWISE,
    )


def _grouped_copies(pending: int) -> Case:
    """Eight groups, of which ``pending`` may be in flight."""
    n = 8 * _THREADS * 4
    return Case(
        name=f"copy_async_wait_{pending}",
        primitives=("cp_async_commit", "cp_async_wait"),
        source="copy",
        kernel=f"copy_async_wait_{pending}",
        inputs=_distinct(n, np.uint32),
        output_dtype=np.uint32,
        output_shape=(n,),
        block=_THREADS,
        shared_bytes=n * 4,
        comparison=_BITWISE,
    )


def copy_past_the_end() -> Case:
    """Copies whose predicate is false point past the end of the tensor."""
    n_blocks, n_elements = 2, 200
    return Case(
        name="copy_async_16_past_the_end",
        primitives=("cp_async_16(SharedAddr, const void*, bool)",),
        source="copy",
        kernel="copy_async_16_past_the_end",
        inputs=_distinct(n_elements * 4, np.uint32),
        output_dtype=np.uint32,
        output_shape=(n_blocks * _THREADS * 4,),
        scalars=(n_elements,),
        grid=n_blocks,
        block=_THREADS,
        shared_bytes=_THREADS * 16,
        comparison=_BITWISE,
    )


def _layout(layout: Layout) -> Case:
    kernel = f"layout_{layout.element}_{layout.pitch}_{layout.swizzle}"
    return Case(
        name=kernel,
        primitives=("at(int, int)", "at_slot"),
        source="layout",
        kernel=kernel,
        inputs=_nothing,
        output_dtype=np.uint32,
        output_shape=(2, 16, layout.pitch),
        block=_THREADS,
        shared_bytes=4 * 16 * layout.pitch * layout.element_bytes,
        comparison=_BITWISE,
    )


def _advance() -> Case:
    return Case(
        name="layout_advance",
        primitives=("operator+",),
        source="layout",
        kernel="layout_advance",
        inputs=_nothing,
        output_dtype=np.uint32,
        output_shape=(_THREADS,),
        block=_THREADS,
        shared_bytes=16 * _THREADS,
        comparison=_BITWISE,
    )


def _places() -> tuple[Case, Case]:
    """Where threads are, and their shared memory; the latter more than a block gets without asking."""
    shared_bytes = 200 * 1024
    indices = Case(
        name="kernel_indices",
        primitives=("thread_index", "lane_index", "warp_index", "block_index"),
        source="kernel",
        kernel="kernel_indices",
        inputs=_nothing,
        output_dtype=np.uint64,
        output_shape=(300, 96, 4),
        grid=300,
        block=96,
        comparison=_BITWISE,
    )
    shared_memory = Case(
        name="kernel_shared_memory",
        primitives=("shared_memory",),
        source="kernel",
        kernel="kernel_shared_memory",
        inputs=_nothing,
        output_dtype=np.uint32,
        output_shape=(64, 32, 2),
        scalars=(shared_bytes,),
        grid=64,
        block=32,
        shared_bytes=shared_bytes,
        comparison=_BITWISE,
    )
    return indices, shared_memory


def _shuffles() -> tuple[Case, ...]:
    steps = {"shuffle": 64, "shuffle_xor": 32, "shuffle_up": 32}
    return tuple(
        Case(
            name=f"{primitive}_{element}",
            primitives=(primitive,),
            source="shuffle",
            kernel=f"{primitive}_{element}",
            inputs=_distinct(32, np.uint32),
            output_dtype=np.uint32,
            output_shape=(n_steps, 32),
            block=32,
            comparison=_BITWISE,
        )
        for primitive, n_steps in steps.items()
        for element in ("float", "uint32_t", "int32_t")
    )


def _barriers() -> tuple[Case, ...]:
    kernels = {
        "sync_by_warp": "sync_warp",
        "sync_by_block": "sync_block",
        "sync_by_pairs_of_warps": "sync_named",
        "sync_by_three_warps": "sync_named",
    }
    n_blocks = 16
    return tuple(
        Case(
            name=kernel,
            primitives=(primitive,),
            source="sync",
            kernel=kernel,
            inputs=_distinct(n_blocks * _THREADS, np.uint32),
            output_dtype=np.uint32,
            output_shape=(n_blocks, 8, _THREADS),
            grid=n_blocks,
            block=_THREADS,
            shared_bytes=4 * _THREADS,
            comparison=_BITWISE,
        )
        for kernel, primitive in kernels.items()
    )
