"""What ptxas says of a kernel: registers, stack, spills, static shared memory, warnings of lost performance."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loomgen.errors import InternalError

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
_MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_PERFORMANCE_LOSS = re.compile(r"\bC75\d\d\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """``registers`` are a thread's; ``static_shared_bytes`` a block's; stack and spills a thread's, the functions
    that a kernel calls included; ``warnings`` are ptxas's lines about serialised wgmma (C7510 to C7599)."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int
    warnings: tuple[str, ...]

    @property
    def spills(self) -> bool:
        return self.stack_bytes + self.spill_store_bytes + self.spill_load_bytes > 0


def parse_resources(log: str, symbol: str) -> Resources:
    """The resources of the one kernel in a ``-Xptxas -v`` log; raises InternalError when it tells of another."""
    entries = [match[1] for match in _ENTRY.finditer(log)]
    used = _USED.search(log)
    if entries != [symbol] or used is None:
        raise InternalError("ptxas log", f"expected the resources of {symbol}, found {entries}")
    memory = [tuple(map(int, match.groups())) for match in _MEMORY.finditer(log)]
    shared = _SHARED.search(log)
    return Resources(
        registers=int(used[1]),
        stack_bytes=sum(stack for stack, _, _ in memory),
        spill_store_bytes=sum(stores for _, stores, _ in memory),
        spill_load_bytes=sum(loads for _, _, loads in memory),
        static_shared_bytes=0 if shared is None else int(shared[1]),
        warnings=tuple(line.strip() for line in log.splitlines() if _PERFORMANCE_LOSS.search(line)),
    )
