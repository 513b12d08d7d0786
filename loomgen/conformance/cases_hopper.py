"""Cases of mbarrier.cuh, panel.cuh, tma.cuh and wgmma.cuh: what goes on beside the threads, and its tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loomgen.conformance.case import Box, Case
from loomgen.conformance.compare import Array, Bitwise, Comparison, Envelope
from loomgen.conformance.fragments import BF16, F16, Floats, Format
from loomgen.conformance.inputs import distinct, hashed, integers

_BITWISE = Bitwise()
_MATRIX_COLS = 72
_BOX_ROWS = 16
_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class _Tile:
    """The tile of a box: 16 rows of ``cols`` elements."""

    element: str
    cols: int
    swizzle: int

    @property
    def dtype(self) -> type[np.uint16] | type[np.uint32]:
        return np.uint32 if self.element == "float" else np.uint16

    @property
    def n_bytes(self) -> int:
        return _BOX_ROWS * self.cols * np.dtype(self.dtype).itemsize

    @property
    def box(self) -> Box:
        return Box(rows=_BOX_ROWS, cols=self.cols, swizzle=self.swizzle)

    def __str__(self) -> str:
        return f"{self.element}_{self.cols}_{self.swizzle}"


_TILES = (
    _Tile("bf16", 64, 3),
    _Tile("bf16", 32, 2),
    _Tile("bf16", 16, 1),
    _Tile("bf16", 64, 0),
    _Tile("bf16", 40, 0),
    _Tile("float", 32, 3),
    _Tile("float", 16, 2),
    _Tile("float", 64, 0),
)


def hopper_cases() -> tuple[Case, ...]:
    """One case or more for each function of the four headers."""
    products = (case for form in (BF16, F16) for cols in (64, 128, 256) for case in _products(form, cols, 3))
    narrow = (case for swizzle in (2, 1) for case in _products(BF16, 64, swizzle))
    return (
        _ring(),
        _panels(),
        *map(_load, _TILES),
        *map(_store, _TILES),
        _store_ring(),
        *products,
        *narrow,
        _two_groups(),
        _registers(),
    )


# --------------------------------------------------------------------------- barriers and boxes


def _ring() -> Case:
    n_blocks, n_steps = 16, 8
    return Case(
        name="mbarrier_ring",
        primitives=("at(int)", "mbarrier_init", "mbarrier_init_fence", "mbarrier_arrive", "mbarrier_wait"),
        source="mbarrier",
        kernel="mbarrier_ring",
        inputs=lambda: (distinct(n_blocks * n_steps * 32, np.uint32),),
        output_dtype=np.uint32,
        output_shape=(n_blocks, n_steps, 3, 32),
        grid=n_blocks,
        block=128,
        shared_bytes=2 * 128 + 4 * 8,
        comparison=_BITWISE,
    )


def _panels() -> Case:
    return Case(
        name="panel_addresses",
        primitives=("panel", "at(int, int)", "at_slot"),
        source="panel",
        kernel="panel_addresses",
        inputs=lambda: (),
        output_dtype=np.uint32,
        output_shape=(3, _BOX_ROWS, 192),
        block=128,
        shared_bytes=3 * _BOX_ROWS * 192 * 2,
        comparison=_BITWISE,
    )


def _load(tile: _Tile) -> Case:
    """Boxes at, across and beyond the edges of 50 rows."""
    n_blocks = 9
    return Case(
        name=f"tma_load_{tile}",
        primitives=("tma_load", "mbarrier_expect_bytes"),
        source="tma",
        kernel=f"tma_load_{tile}",
        inputs=lambda: (distinct(50 * _MATRIX_COLS, tile.dtype).reshape(50, _MATRIX_COLS),),
        output_dtype=tile.dtype,
        output_shape=(n_blocks, _BOX_ROWS, tile.cols),
        boxes=(tile.box,),
        grid=n_blocks,
        block=128,
        shared_bytes=tile.n_bytes + 8,
        comparison=_BITWISE,
    )


def _store(tile: _Tile) -> Case:
    """Boxes that cover 40 rows and more, 72 columns and more."""
    n_blocks = 3 * math.ceil(_MATRIX_COLS / tile.cols)
    return Case(
        name=f"tma_store_{tile}",
        primitives=("tma_store", "tma_store_commit", "tma_store_wait", "fence_proxy_async"),
        source="tma",
        kernel=f"tma_store_{tile}",
        inputs=lambda: (distinct(n_blocks * _BOX_ROWS * tile.cols, tile.dtype),),
        output_dtype=tile.dtype,
        output_shape=(40, _MATRIX_COLS),
        boxes=(None, tile.box),
        grid=n_blocks,
        block=128,
        shared_bytes=tile.n_bytes,
        comparison=_BITWISE,
    )


def _store_ring() -> Case:
    """Eight boxes through two tiles."""
    tile = _TILES[0]
    return Case(
        name="tma_store_ring",
        primitives=("tma_store", "tma_store_commit", "tma_store_wait", "fence_proxy_async"),
        source="tma",
        kernel="tma_store_ring",
        inputs=lambda: (distinct(8 * _BOX_ROWS * tile.cols, tile.dtype),),
        output_dtype=tile.dtype,
        output_shape=(8 * _BOX_ROWS, tile.cols),
        boxes=(None, tile.box),
        block=128,
        shared_bytes=2 * tile.n_bytes,
        comparison=_BITWISE,
    )


# --------------------------------------------------------------------------- products

_PRODUCT = ("wgmma_m64k16", "wgmma_operand", "wgmma_fence", "wgmma_commit")
_WAIT, _WAIT_FOR = "wgmma_wait()", "wgmma_wait(float (&)[TILES][4])"


def _products(form: Format, cols: int, swizzle: int) -> tuple[Case, Case]:
    """A product that is exact, and one with roundings."""
    exact = _product(form, cols, swizzle, exact=True)
    return exact, _product(form, cols, swizzle, exact=False)


def _product(form: Format, cols: int, swizzle: int, *, exact: bool) -> Case:
    depth = 8 << swizzle
    kernel = f"wgmma_{form.name}_{cols}_{swizzle}"
    return Case(
        name=f"{kernel}.{'integers' if exact else 'fractions'}",
        primitives=(*_PRODUCT, _WAIT_FOR),
        source="wgmma",
        kernel=kernel,
        inputs=lambda: _operands(form, cols, depth, exact=exact),
        output_dtype=np.float32,
        output_shape=(_BLOCKS, 64, cols),
        grid=_BLOCKS,
        block=128,
        shared_bytes=8192 + cols * depth * 2,
        comparison=_BITWISE if exact else _envelope(form, depth),
    )


def _two_groups() -> Case:
    """Both halves of 128 columns, [2, blocks, 64, 64]."""

    def inputs() -> tuple[Array, ...]:
        a, b, c = _operands(BF16, 128, 64, exact=True)
        halves = c.reshape(_BLOCKS, 64, 2, 64).transpose(2, 0, 1, 3)
        return a, b, np.ascontiguousarray(halves)

    return Case(
        name="wgmma_two_groups",
        primitives=(*_PRODUCT, _WAIT),
        source="wgmma",
        kernel="wgmma_two_groups",
        inputs=inputs,
        output_dtype=np.float32,
        output_shape=(2, _BLOCKS, 64, 64),
        grid=_BLOCKS,
        block=128,
        shared_bytes=8192 + 128 * 64 * 2,
        comparison=_BITWISE,
    )


def _registers() -> Case:
    return Case(
        name="wgmma_registers",
        primitives=("claim_registers", "release_registers"),
        source="wgmma",
        kernel="wgmma_registers",
        inputs=lambda: (distinct(_BLOCKS * 384, np.uint32),),
        output_dtype=np.uint32,
        output_shape=(_BLOCKS, 384),
        grid=_BLOCKS,
        block=384,
        comparison=_BITWISE,
    )


def _operands(form: Format, cols: int, depth: int, *, exact: bool) -> tuple[Array, Array, Array]:
    """a [blocks, 64, depth] and b [blocks, cols, depth] encoded, c [blocks, 64, cols]."""
    shapes = ((_BLOCKS, 64, depth), (_BLOCKS, cols, depth), (_BLOCKS, 64, cols))
    make = _integers if exact else _fractions
    a, b, c = (make(shape, 81 + i) for i, shape in enumerate(shapes))
    return form.encode(a), form.encode(b), c


def _integers(shape: tuple[int, ...], seed: int) -> Floats:
    return integers(math.prod(shape), seed, -127, 127).reshape(shape).astype(np.float32)


def _fractions(shape: tuple[int, ...], seed: int) -> Floats:
    """Of either sign, exponents from -6 to 6."""
    n = math.prod(shape)
    exponent = np.uint32(121) + hashed(n, seed + 10) % np.uint32(13)
    bits = hashed(n, seed) & np.uint32(0x807FFFFF) | exponent << np.uint32(23)
    values: Floats = bits.view(np.float32).reshape(shape)
    return values


def _envelope(form: Format, depth: int) -> Comparison:
    """What m16n8k16 may err by, of one k16 step after another: each of 16 products and of four sums of a step loses at
    most 2^-23 of sum |a * b| + |c|."""
    losses = depth // 16 * 20

    def scale(inputs: Sequence[Array], host: Array) -> Array:
        a, b, c = inputs
        magnitudes = np.abs(form.decode(a).astype(np.float64)) @ np.abs(form.decode(b).astype(np.float64)).swapaxes(
            1, 2
        )
        summed: Array = magnitudes + np.abs(c.astype(np.float64))
        return summed

    return Envelope(relative=losses * 2.0**-23, scale=scale, bound=f"{losses} * 2^-23 * (sum |a * b| + |c|)")
