"""Tile values as numpy arrays, read in index notation.

A statement's axes are index letters. What an expression evaluates to is either 0-dimensional (uniform) or has one
dimension per axis, of extent 1 where the expression does not depend on the letter, so that arrays broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from loomgen.errors import InternalError
from loomgen.ir.tile import Sub
from loomgen.ir.types import Index

Array = npt.NDArray[Any]
Axes = tuple[Index, ...]


def index_values(index: Index, axes: Axes) -> Array:
    """0 .. extent - 1 of ``index`` along its own axis, i64."""
    shape = [index.extent if axis == index else 1 for axis in axes]
    return np.arange(index.extent, dtype=np.int64).reshape(shape)


def read_tile(tile: Array, subs: tuple[Sub, ...], axes: Axes) -> Array:
    """``tile[subs]`` over ``axes``: transposes, diagonals, shifted blocks and single elements."""
    positions = tuple(_positions(sub, size, axes) for sub, size in zip(subs, tile.shape, strict=True))
    return np.asarray(tile[positions])


def _positions(sub: Sub, size: int, axes: Axes) -> Array | int:
    extent = 1 if sub.index is None else sub.index.extent
    if sub.offset < 0 or sub.offset + extent > size:
        raise InternalError("interp", f"subscript {sub.index} + {sub.offset} leaves an axis of {size}")
    return sub.offset if sub.index is None else index_values(sub.index, axes) + sub.offset
