"""What the comments at the top of a kernel's file say: its equations, its tensors, how its threads share the work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from loomgen.ir import plan
from loomgen.ir.kernel import KernelSpec
from loomgen.ir.plan import PlanOp, SharedLayout
from loomgen.ir.tile import Tensor
from loomgen.passes.pipeline import LoweredKernel
from loomgen.passes.trace import leaves

_WIDTH = 117
"""Of a comment's text."""


def description(kernel: KernelSpec) -> list[str]:
    """The kernel's name, what its spec says about it, and its tensors, line by line."""
    lines = [str(kernel.name)]
    about = [_harmless(line) for line in kernel.about.strip("\n").splitlines()]
    lines += ["", *_folded(about)] if any(about) else []
    return [*lines, "", *_tensors(kernel.program.tensors)]


def schedule_comment(lowered: LoweredKernel) -> list[str]:
    """One sentence: threads and what they share, rings, shared memory."""
    parts = [_team(lowered), *_rings(lowered.plan.body), *_shared(lowered.layout)]
    if lowered.launch.min_blocks > 1:
        parts.append(f"{lowered.launch.min_blocks} blocks an SM")
    return wrap("; ".join(parts) + ".", _WIDTH, break_long_words=False)


def _harmless(line: str) -> str:
    """A line of a comment: a backslash at its end would continue it."""
    return line.rstrip().rstrip("\\").rstrip()


def _folded(lines: Sequence[str]) -> Iterator[str]:
    """Lines that fit. Those at the margin are running text; one that is indented, such as an equation, begins a line of
    its own."""
    for is_text, group in groupby(lines, lambda line: line != "" and not line[0].isspace()):
        for line in [" ".join(group)] if is_text else group:
            margin = line[: len(line) - len(line.lstrip())]
            yield from wrap(line, _WIDTH, subsequent_indent=margin) or [""]


def _tensors(tensors: tuple[Tensor, ...]) -> Iterator[str]:
    """A table: access, name, element type and shape, meaning."""
    rows = [(tensor.access.value, tensor.name, _type(tensor), _meaning(tensor)) for tensor in tensors]
    widths = [max(len(row[column]) for row in rows) for column in range(3)] if rows else []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join(["", *cells, row[3]]).rstrip()


def _type(tensor: Tensor) -> str:
    shape = tensor.symbols or tensor.shape
    return f"{tensor.dtype.value}[{', '.join(str(extent) for extent in shape)}]"


def _meaning(tensor: Tensor) -> str:
    notes = [_harmless(" ".join(tensor.about.split()))] if tensor.about else []
    notes += ["may be absent"] if tensor.optional else []
    notes += ["any strides"] if tensor.strides == "free" else []
    notes += ["rows contiguous"] if tensor.strides == "rows" else []
    return "; ".join(notes)


def _team(lowered: LoweredKernel) -> str:
    team = lowered.plan.team
    threads = f"{team.threads} threads"
    if not any(isinstance(leaf, plan.Mma) for op in lowered.plan.body for leaf in leaves(op)):
        return threads
    slabs = f"{threads} = {team.warps} warps, one a slab of 16 rows"
    if team.parts == 1:
        return slabs
    split = next(split.index for split in lowered.kernel.schedule.splits if split.across == team.parts)
    return f"{slabs} and part of {split} ({team.slabs} slabs x {team.parts} parts)"


def _rings(ops: tuple[PlanOp, ...]) -> Iterator[str]:
    """The tiles that loops load ahead, by their number of slots."""
    arrivals = [leaf for op in ops for leaf in leaves(op) if isinstance(leaf, plan.Arrive)]
    rings = {ref.buffer.name: ref.buffer.slots for arrival in arrivals for ref in arrival.refs if ref.buffer.slots > 1}
    for slots in sorted(set(rings.values())):
        names = ", ".join(name for name, count in rings.items() if count == slots)
        yield f"rings of {slots} slots for {names}"


def _shared(layout: SharedLayout) -> Iterator[str]:
    if layout.n_bytes:
        yield f"{layout.n_bytes} bytes of shared memory"
