"""``loomgen verify``: run stages, or an operator, and compare them with the float64 golden."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loomgen.cli.determinism import verify_determinism
from loomgen.cli.exit_codes import ExitCode
from loomgen.cli.options import JsonOption, OneArchOption, StageOption, parse_heads, parse_lengths
from loomgen.cli.output import counting, show
from loomgen.cli.project import Project, default_root, matching

if TYPE_CHECKING:
    from loomgen.verify import OpRow, VerifyRow

_COLUMNS = {
    "stage": "stage",
    "kernel": "kernel",
    "seed": "seed",
    "tensor": "tensor",
    "exact_by": "exact by",
    "rel_l2": "relative L2",
    "bound": "bound",
    "bits": "bits as ordered",
    "ok": "ok",
}

_OP_COLUMNS = {
    "case": "case",
    "lengths": "lengths",
    "heads": "heads",
    "seed": "seed",
    "tensor": "tensor",
    "rel_l2": "relative L2",
    "bound": "bound",
    "ok": "ok",
}

_STAGE_OPTIONS = ("stage", "shape", "heads")
"""Options that say which stages run on what; an operator has its own cases."""

_CASE_OPTIONS = (*_STAGE_OPTIONS, "op", "seeds")
"""Options that --determinism does not take: its shapes are its own."""


class Backend(str, Enum):
    """What runs a kernel: the interpreter of its meaning, or the emulator of its CUDA source."""

    INTERP = "interp"
    EMULATE = "emulate"


def verify(
    ctx: typer.Context,
    backend: Annotated[Backend, typer.Option(help="What runs the stages.")] = Backend.INTERP,
    arch: OneArchOption = "sm_100a",
    stage: StageOption = None,
    op: Annotated[str | None, typer.Option(help="Verify this operator over its own cases, not stages.")] = None,
    shape: Annotated[str, typer.Option(help="Sequence lengths of the packed batch.")] = "0,15,64,65,200",
    heads: Annotated[str, typer.Option(help="Key heads / value heads.")] = "2/4",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run: 0, 1, ...")] = 1,
    determinism: Annotated[
        bool, typer.Option("--determinism", help="Repeat the operator and its backward on a GPU; compare all bits.")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="With --determinism: calls of each check (100; 2 in the emulator).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the stages on a packed ragged batch and print each tensor's error against float64.

    The emulator runs the committed sources and also compares every bit with the interpreter, which replays the plan's
    sums. With --op, run an operator, such as chunk_gated_delta_rule, and its backward over shapes, dtypes and flags
    instead. With --determinism, repeat both on the first GPU, or with --backend emulate in small on the CPU: again,
    with NaN in free memory, on two streams at once, and each sequence by itself. Exits 1 past a bound, where a bit
    differs, and where the emulator finds a fault; 3 without a GPU that --determinism needs.
    """
    if repeats is not None and not determinism:
        raise typer.BadParameter("--repeats is for --determinism")
    if determinism:
        is_emulated = _check_determinism_options(ctx, backend)
        verify_determinism(emulate=is_emulated, arch=arch, repeats=repeats, as_json=as_json)
        return
    rows: Sequence[VerifyRow | OpRow]
    if op is None:
        rows = _rows(
            ctx.obj, backend, arch, stage, parse_lengths("--shape", shape), parse_heads("--heads", heads), seeds
        )
    else:
        _check_op_options(ctx, backend)
        rows = _op_rows(ctx.obj, op, arch, seeds)
    show([_printable(row) for row in rows], _COLUMNS if op is None else _OP_COLUMNS, as_json=as_json)
    if not all(row.ok for row in rows):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _rows(
    project: Project,
    backend: Backend,
    arch: str,
    stage: str | None,
    lengths: tuple[int, ...],
    heads: tuple[int, int],
    seeds: int,
) -> list[VerifyRow]:
    from loomgen.target import target_named
    from loomgen.verify import verify_stages

    target = target_named(arch).name
    kernels = matching(project.kernels(), stage)
    with counting("verifying", len(kernels) * seeds) as on_kernel:
        return verify_stages(
            kernels,
            backend.value,
            lengths,
            heads,
            tuple(range(seeds)),
            root=project.root,
            arch=target,
            on_kernel=on_kernel,
        )


def _check_op_options(ctx: typer.Context, backend: Backend) -> None:
    """Raises BadParameter for what an operator does not take: it runs this package's kernels over its own cases."""
    for name in _STAGE_OPTIONS:
        if _is_given(ctx, name):
            raise typer.BadParameter(f"--{name} is for stages: --op has cases of its own")
    if backend is not Backend.EMULATE:
        raise typer.BadParameter(f"--backend {backend.value}: an operator runs kernels, want emulate with --op")
    _check_root(ctx)


def _check_determinism_options(ctx: typer.Context, backend: Backend) -> bool:
    """Whether the emulator takes the GPU's place; raises BadParameter for what --determinism does not take."""
    for name in _CASE_OPTIONS:
        if _is_given(ctx, name):
            raise typer.BadParameter(f"--{name}: --determinism has shapes of its own")
    if _is_given(ctx, "backend") and backend is not Backend.EMULATE:
        raise typer.BadParameter(f"--backend {backend.value}: want emulate with --determinism, or a GPU without it")
    if _is_given(ctx, "arch") and backend is not Backend.EMULATE:
        raise typer.BadParameter(f"--arch {ctx.params['arch']}: a GPU has its own, want it with --backend emulate")
    _check_root(ctx)
    return backend is Backend.EMULATE


def _check_root(ctx: typer.Context) -> None:
    if ctx.obj.root != default_root():
        raise typer.BadParameter(f"--root {ctx.obj.root}: an operator runs the kernels beside the package")


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _op_rows(project: Project, op: str, arch: str, seeds: int) -> list[OpRow]:
    from loomgen.target import target_named
    from loomgen.verify import CASES, verify_op

    with counting("verifying", len(CASES) * seeds) as on_case:
        return verify_op(
            op,
            range(seeds),
            arch=target_named(arch).name,
            kernels=project.kernels,
            on_case=on_case,
        )


def _printable(row: VerifyRow | OpRow) -> dict[str, Any]:
    """The row with an error that JSON can hold: null where the tensor is not finite."""
    fields = dataclasses.asdict(row)
    return fields if math.isfinite(row.rel_l2) else {**fields, "rel_l2": None}
