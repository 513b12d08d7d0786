"""A kernel's registry entry, from its spec and what the passes found."""

from __future__ import annotations

from loomgen.ir.kernel import Argument, KernelSpec, Launch
from loomgen.ir.tile import Access, ArgRead, Binary, BinaryOp, ForWindow, Program, WindowKind
from loomgen.ir.walk import expressions, nodes, statements
from loomgen.registry import (
    ArgumentEntry,
    BoxEntry,
    Constraints,
    KernelEntry,
    LaunchEntry,
    Multiple,
    ScanEntry,
    SourceEntry,
    SpecEntry,
    StrideSource,
)
from loomgen.render.compiler import Lowered


def kernel_entry(kernel: KernelSpec, lowered: Lowered, source: SourceEntry) -> KernelEntry:
    name = kernel.name
    return KernelEntry(
        name=str(name),
        stage=name.stage,
        signature=name.signature,
        variant=name.variant,
        instantiation=name.instantiation,
        family=kernel.family,
        symbol=str(name),
        source=source,
        spec=SpecEntry(path=kernel.spec_path, digest=kernel.spec_digest),
        arguments=tuple(_argument_entry(argument) for argument in lowered.arguments),
        launch=_launch_entry(lowered.launch),
        scan=_scan_entry(kernel),
        constraints=Constraints(dims=dict(kernel.program.dims), multiples=_multiples(kernel.program)),
    )


def _argument_entry(argument: Argument) -> ArgumentEntry:
    return ArgumentEntry(
        name=argument.name,
        kind=argument.kind.value,
        dtype=argument.dtype.value,
        shape=argument.shape,
        access=None if argument.access is None else Access(argument.access).value,
        optional=argument.optional,
        source=_argument_source(argument),
    )


def _argument_source(argument: Argument) -> StrideSource | BoxEntry | None:
    if argument.source is not None:
        return StrideSource(tensor=argument.source[0], dim=argument.source[1])
    box = argument.box
    return None if box is None else BoxEntry(tensor=box.tensor, rows=box.rows, cols=box.cols, swizzle=box.swizzle)


def _launch_entry(launch: Launch) -> LaunchEntry:
    return LaunchEntry(
        threads=launch.threads,
        min_blocks=launch.min_blocks,
        grid=launch.grid,
        dynamic_shared_bytes=launch.shared_bytes,
    )


def _scan_entry(kernel: KernelSpec) -> ScanEntry | None:
    """The scan block, for a kernel that loops over a sequence's chunks with a carried tile."""
    loops = (stmt for stmt in statements(kernel.program.body) if isinstance(stmt, ForWindow))
    scan = next((loop for loop in loops if loop.carried and loop.window.kind is WindowKind.CHUNK), None)
    if scan is None:
        return None
    windows = (axis.window for axis in kernel.program.grid if axis.window is not None)
    return ScanEntry(
        step=scan.window.extent,
        blocks={window.name: window.extent for window in windows if window.kind is WindowKind.BLOCK},
        parts={split.index: split.parts for split in kernel.schedule.splits},
    )


def _multiples(program: Program) -> tuple[Multiple, ...]:
    """``HV // H`` in a program says that HV is a multiple of H."""
    pairs = {
        (node.a.name, node.b.name)
        for stmt in statements(program.body)
        for expr in expressions(stmt)
        for node in nodes(expr)
        if isinstance(node, Binary)
        and node.op is BinaryOp.FLOORDIV
        and isinstance(node.a, ArgRead)
        and isinstance(node.b, ArgRead)
    }
    return tuple(Multiple(dim=dim, of=of) for dim, of in sorted(pairs))
