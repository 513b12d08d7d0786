"""The launches of a plan, and in which of a call's tensors each of their addresses lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from loomgen.ops.packed import packed
from loomgen.ops.workspace import Workspace
from loomgen.runtime.bind import Value
from loomgen.runtime.launch import LaunchPlan

META = torch.device("meta")
"""Where tensors have shapes and no memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedLaunches:
    """``places`` says for each address of ``launches`` which tensor of a call it is in, by its number, and how many
    bytes from its start; ``copied`` are the numbers and names of inputs that kernels cannot read where they lie."""

    launches: LaunchPlan
    places: tuple[tuple[int, int], ...]
    copied: tuple[tuple[int, str], ...]

    @property
    def captured(self) -> bool:
        return self.launches.captured

    def run(self, tensors: list[Tensor | None]) -> None:
        """Launches on the current stream; copies stand in ``tensors`` afterwards."""
        for i, name in self.copied:
            x = tensors[i]
            assert x is not None
            tensors[i] = packed(name, x)
        starts = [_start(x) for x in tensors]
        self.launches.run([starts[i] + offset for i, offset in self.places])


def placed(
    launches: LaunchPlan,
    numbers: Mapping[str, int],
    parts: Sequence[Workspace],
    *,
    inputs: Mapping[str, Value],
    originals: Mapping[str, Tensor | None],
) -> PlacedLaunches:
    """``numbers`` are those of the callers' tensors by name; ``parts``, memory for several tensors each, have the next
    ones. ``inputs`` is what kernels read, and ``originals`` what a caller passed for those that may be copied.
    """
    first = max(numbers.values()) + 1
    places = {name: (i, 0) for name, i in numbers.items()}
    for i, part in enumerate(parts, first):
        places |= {name: (i, place.offset) for name, place in part.places.items()}
    return PlacedLaunches(
        launches=launches,
        places=tuple(places[name] for name in launches.names),
        copied=tuple((numbers[name], name) for name, x in originals.items() if _is_copy(inputs[name], x)),
    )


def _start(x: Tensor | None) -> int:
    """The address of ``x``, 0 without it; raises TypeError for a tensor that has elements and no memory."""
    address = 0 if x is None else x.data_ptr()
    if not address and x is not None and x.numel():
        raise TypeError(f"a {type(x).__name__} without memory, expected a plain tensor")
    return address


def _is_copy(used: Value, original: Tensor | None) -> bool:
    return isinstance(used, Tensor) and original is not None and used.data_ptr() != original.data_ptr()
