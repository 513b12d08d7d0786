"""Tables on a GPU, kept there for as long as a plan lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentTables:
    """The tables by name, views of one piece of device memory."""

    tensors: Mapping[str, Tensor]
    _memory: Tensor
    _streams: set[int] = field(default_factory=set)

    def used_on(self, stream: int) -> None:
        """Says that kernels on ``stream``, the current stream, read the tables: the memory outlives them."""
        if stream in self._streams or not self._memory.is_cuda:
            return
        self._streams.add(stream)
        self._memory.record_stream(torch.cuda.current_stream(self._memory.device))


def upload(tables: Mapping[str, Tensor], device: torch.device) -> ResidentTables:
    """Tables of one dtype, vectors on the CPU by name, on ``device``, complete on return, in one copy.

    The copy has a stream of its own and nothing but that stream is waited for: kernels that are queued on the current
    stream run on, and whichever stream uses the tables next finds them there.
    """
    joined = torch.cat(list(tables.values())) if tables else torch.empty(0, dtype=torch.int32, device="cpu")
    memory = _copy(joined, device) if device.type == "cuda" else joined.to(device)
    return ResidentTables(tensors=_parts(memory, tables), _memory=memory)


def _parts(memory: Tensor, tables: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views of ``memory``, which holds ``tables`` one after the other."""
    ends = accumulate(len(table) for table in tables.values())
    return {name: memory[end - len(table) : end] for (name, table), end in zip(tables.items(), ends, strict=True)}


def _copy(host: Tensor, device: torch.device) -> Tensor:
    with torch.cuda.stream(_copy_stream(device)):
        return host.to(device)


@cache
def _copy_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
