"""Tensor maps: how the copy hardware is told of a tensor, made by the driver from its address, shape and box."""

from __future__ import annotations

import ctypes
import math
from typing import Protocol

from torch import Tensor

from loomgen.registry.model import ArgumentEntry, BoxEntry
from loomgen.target.tensor_map import MAP_BYTES, MatrixBox


class Encoder(Protocol):
    """What makes a map: a CUDA driver."""

    def encode(self, box: MatrixBox) -> bytes:
        """The map's :data:`MAP_BYTES` bytes, a pure function of ``box``."""


class MappedTensor:
    """The map of one parameter, encoded again only where its tensor's address has changed."""

    __slots__ = ("_argument", "_encoder", "_matrix", "_now", "memory", "name", "tensor")

    def __init__(self, argument: ArgumentEntry, tensor: Tensor, encoder: Encoder) -> None:
        """``memory`` is what a launch reads as the parameter ``name``; ``tensor`` is what it maps."""
        assert isinstance(argument.source, BoxEntry)
        self.name = argument.name
        self.tensor = argument.source.tensor
        self.memory = (ctypes.c_ubyte * MAP_BYTES)()
        self._argument = argument
        self._encoder = encoder
        self._matrix = (tensor.shape[0], math.prod(tensor.shape[1:]))
        self._now = 0
        self.point_to(tensor.data_ptr())

    def point_to(self, address: int) -> None:
        """The map is that of a tensor of the same shape at ``address`` from now on."""
        if address == self._now:
            return
        box = self._argument.source
        assert isinstance(box, BoxEntry)
        rows, cols = self._matrix
        encoded = self._encoder.encode(
            MatrixBox(
                address=address,
                dtype=self._argument.dtype,
                rows=rows,
                cols=cols,
                box_rows=box.rows,
                box_cols=box.cols,
                swizzle=box.swizzle,
            )
        )
        ctypes.memmove(self.memory, encoded, MAP_BYTES)
        self._now = address
