"""``loomgen plan``: what a call of the operator would launch, and why."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from loomgen.cli.options import JsonOption, OneArchOption, parse_heads, parse_lengths
from loomgen.cli.output import show

if TYPE_CHECKING:
    from loomgen.ops.dispatch import CallShape
    from loomgen.ops.forecast import Forecast


def plan(
    ctx: typer.Context,
    seqlens: Annotated[str, typer.Option(help="The lengths of the sequences, for example 4096,4096.")],
    heads: Annotated[str, typer.Option(help="Key heads / value heads, for example 16/32.")],
    k: Annotated[int, typer.Option("--k", help="Head dim of the keys.")] = 128,
    v: Annotated[int, typer.Option("--v", help="Head dim of the values.")] = 128,
    dtype: Annotated[str, typer.Option(help="Of q, k and v: bf16 or f16.")] = "bf16",
    arch: OneArchOption = "sm_90a",
    sms: Annotated[
        int | None, typer.Option(min=1, help="Multiprocessors that the scan is chosen for (default: the operator's).")
    ] = None,
    on_device: Annotated[bool, typer.Option("--on-device", help="Only the GPU knows the lengths.")] = False,
    raw_gates: Annotated[bool, typer.Option("--raw-gates", help="use_gate_in_kernel, g in --dtype.")] = False,
    raw_steps: Annotated[
        bool, typer.Option("--raw-steps", help="use_beta_sigmoid_in_kernel, beta in --dtype.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print what the operator launches for sequences of these lengths: the scan and why, grids, memory.

    The operator decides for one number of multiprocessors; another shows what it would do if it were told.
    """
    from loomgen.ops.dispatch import MULTIPROCESSORS
    from loomgen.ops.forecast import forecast
    from loomgen.registry import load
    from loomgen.target import target_named

    target = target_named(arch)
    lengths = _lengths(seqlens)
    key_heads, value_heads = parse_heads("--heads", heads)
    shape = _shape(len(lengths), value_heads, (k, v), dtype, on_device)
    shape = replace(
        shape,
        raw_gate=shape.activation if raw_gates else None,
        raw_step=shape.activation if raw_steps else None,
    )
    found = forecast(load(arch, ctx.obj.root), target, shape, lengths, key_heads, sms or MULTIPROCESSORS)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
    else:
        _print(found)


def _lengths(text: str) -> tuple[int, ...]:
    from loomgen.ops.arguments import MOST_TOKENS

    lengths = parse_lengths("--seqlens", text)
    if sum(lengths) > MOST_TOKENS:
        raise typer.BadParameter(f"--seqlens {text!r}: {sum(lengths)} tokens, at most {MOST_TOKENS}")
    return lengths


def _shape(n_sequences: int, value_heads: int, head_dims: tuple[int, int], dtype: str, on_device: bool) -> CallShape:
    import torch

    from loomgen.ops.dispatch import ACTIVATIONS, HEAD_DIMS, CallShape
    from loomgen.runtime.dtypes import DTYPE_NAMES

    dtypes = {DTYPE_NAMES[dtype]: dtype for dtype in ACTIVATIONS}
    for name, dim in zip(("--k", "--v"), head_dims, strict=True):
        if dim not in HEAD_DIMS:
            raise typer.BadParameter(f"{name} {dim}: want {' or '.join(map(str, HEAD_DIMS))}")
    if head_dims[0] != head_dims[1]:
        raise typer.BadParameter(f"--v {head_dims[1]}: want {head_dims[0]}, the head dim of the keys")
    if dtype not in dtypes:
        raise typer.BadParameter(f"--dtype {dtype!r}: want {' or '.join(dtypes)}")
    return CallShape(
        n_sequences=n_sequences,
        value_heads=value_heads,
        head_dim=head_dims[0],
        activation=dtypes[dtype],
        step=torch.float32,
        offsets=torch.int32 if on_device else None,
    )


def _print(found: Forecast) -> None:
    chosen = next(scan for scan in found.scans if scan.chosen)
    typer.echo(f"{found.n_tokens} tokens, {found.n_sequences} sequences, {found.n_chunks} chunks of 64")
    typer.echo(f"window tables {found.table_bytes} bytes, workspace {found.workspace_bytes} bytes")
    typer.echo(f"scan {chosen.variant}: {found.reason}")
    columns = {
        "variant": "scan",
        "blocks": "blocks",
        "resident": "resident/SM",
        "waves": "waves",
        "idle_share": "SMs idle",
        "steps": "steps in a chain",
        "chosen": "chosen",
    }
    show([asdict(scan) for scan in found.scans], columns, as_json=False)
    launches = {"kernel": "launch", "blocks": "blocks", "threads": "threads", "shared_bytes": "shared bytes"}
    show([asdict(launch) for launch in found.launches], launches, as_json=False)
