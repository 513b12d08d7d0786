"""Time the variants of the state scans on the first GPU, over numbers of sequences and heads.

    python -m tools.gpu_scan_variants --out DIR --commit SHA [--stage STAGE ...] [--variant VARIANT ...]

What `loomgen.ops.dispatch.scan_variant` goes by, of the forward's scan, stage `fwd_h`, and of the backward's, `dhu`,
which goes in reverse. Variants are interleaved, the L2 cache is flushed before each launch; medians. Writes a document
for each stage, DIR/scan_variants.<card>.json and DIR/reverse_scan_variants.<card>.json. Needs torch for CUDA,
cuda-bindings, pydantic, nvcc and ninja. Exit codes: 0 all are timed, 2 could not run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from loomgen.bench.gpu import DEVICE, GpuTimer
from loomgen.bench.timing import Timed, interleaved
from loomgen.evidence import command_of, first_card, write_evidence
from loomgen.ops.dispatch import CHUNK, SCAN_VARIANTS, CallShape, ScanVariant, scan_variant, select
from loomgen.ops.dispatch_backward import select_backward
from loomgen.registry import KernelEntry, Registry
from loomgen.runtime.bind import Value
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import CudaDriver
from loomgen.runtime.kernels import DeviceKernels
from loomgen.runtime.launch import LaunchPlan, prepare_plan
from loomgen.runtime.resident import upload
from loomgen.runtime.tables import window_tables
from tools.arguments import out_folder
from tools.gpu_evidence import TORCH_VERSIONS
from tools.running import exit_code

TOPICS = {"fwd_h": "scan_variants", "dhu": "reverse_scan_variants"}
"""The stages, and what their documents are called."""

N_TOKENS = 16384
SHAPES = (
    (1, 8, 16),
    (1, 16, 32),
    (2, 8, 16),
    (2, 10, 20),
    (2, 16, 32),
    (4, 8, 16),
    (4, 16, 32),
    (8, 16, 32),
    (32, 16, 32),
)
"""Sequences, key heads and value heads."""
HEAD_DIM = 128
WARMUPS, CALLS = 3, 15


def inputs(n_sequences: int, key_heads: int, value_heads: int) -> dict[str, Value]:
    """Random tensors of both scans' arguments: queries and keys of length one, gates of a mild decay, inverses near the
    identity. No scan writes what it reads; what both write has the same shapes."""
    generator = torch.Generator(device=DEVICE).manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, device=DEVICE)

    n_chunks = N_TOKENS // CHUNK
    by_chunk = (n_chunks, value_heads, CHUNK)
    gates = torch.nn.functional.logsigmoid(normal(*by_chunk)) / 16
    below = (normal(n_chunks, CHUNK, value_heads, CHUNK) / CHUNK).permute(0, 2, 1, 3).tril(-1).permute(0, 2, 1, 3)
    inverses = below + torch.eye(CHUNK, device=DEVICE)[:, None]
    rows = (N_TOKENS, value_heads, HEAD_DIM)
    states = torch.empty(n_chunks, value_heads, HEAD_DIM, HEAD_DIM, dtype=torch.bfloat16, device=DEVICE)
    by_value = torch.empty(n_chunks, value_heads, HEAD_DIM, CHUNK, dtype=torch.bfloat16, device=DEVICE)
    return {
        "qn": (normal(N_TOKENS, key_heads, HEAD_DIM) * HEAD_DIM**-0.5).bfloat16(),
        "kn": (normal(N_TOKENS, key_heads, HEAD_DIM) * HEAD_DIM**-0.5).bfloat16(),
        "v": normal(*rows).bfloat16(),
        "do": normal(*rows).bfloat16(),
        "dn": normal(*rows).bfloat16(),
        "scale": HEAD_DIM**-0.5,
        "A": inverses.reshape(N_TOKENS, value_heads, CHUNK).bfloat16(),
        "G": gates.cumsum(-1),
        "beta": normal(*by_chunk).sigmoid(),
        "h": states,
        "dh": states,
        "v_new": by_value,
        "dx": by_value,
    }


def kernel_of(registry: Registry, call: CallShape, stage: str, variant: ScanVariant) -> KernelEntry:
    if stage == "fwd_h":
        return select(registry, call, variant).fwd_h
    return select_backward(registry, call, has_states=True, variant=variant).dhu


def plan(kernels: DeviceKernels, kernel: KernelEntry, given: dict[str, Value], n_sequences: int) -> LaunchPlan:
    tables = window_tables([N_TOKENS // n_sequences] * n_sequences, CHUNK)
    return prepare_plan(kernels, [kernel], given, upload(tables.by_name(), DEVICE))


def measure(
    kernels: DeviceKernels,
    timer: GpuTimer,
    stage: str,
    shape: tuple[int, int, int],
    variants: Sequence[ScanVariant] = SCAN_VARIANTS,
) -> dict[str, Any]:
    """A row of the evidence: the median time of each variant in ms, and what the dispatch chooses."""
    given = inputs(*shape)
    call = CallShape(
        n_sequences=shape[0],
        value_heads=shape[2],
        head_dim=HEAD_DIM,
        activation=torch.bfloat16,
        step=torch.float32,
    )
    plans = {name: plan(kernels, kernel_of(kernels.registry, call, stage, name), given, shape[0]) for name in variants}
    addresses = {
        name: [tensor.data_ptr() for tensor in (given[n] for n in made.names) if isinstance(tensor, torch.Tensor)]
        for name, made in plans.items()
    }
    launches: dict[str, Timed] = {name: partial(made.run, addresses[name]) for name, made in plans.items()}
    interleaved(launches, WARMUPS, timer.call_ms)
    times = interleaved(launches, CALLS, timer.call_ms)
    row = f"{shape[0]}x{N_TOKENS // shape[0]} {shape[1]}/{shape[2]}"
    medians = {name: round(statistics.median(samples), 4) for name, samples in times.items()}
    return {"row": row, "pass": stage, "kernel_ms": medians, "chosen": scan_variant(call)}


def measure_stages(options: argparse.Namespace) -> bool:
    """A document for each stage, once all of its shapes are measured."""
    card = first_card()
    kernels = DeviceKernels(0, CudaDriver(), CubinStore())
    timer = GpuTimer()
    variants = options.variant or SCAN_VARIANTS
    command = command_of(["python", "-m", "tools.gpu_scan_variants"], sys.argv[1:])
    for stage in options.stage or TOPICS:
        rows = [measure(kernels, timer, stage, shape, variants) for shape in SHAPES]
        write_evidence(
            options.out, TOPICS[stage], card, rows, versions=TORCH_VERSIONS, commit=options.commit, command=command
        )
        for row in rows:
            print(row["pass"], row["row"], row["kernel_ms"], row["chosen"])
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=out_folder, required=True, help="folder for the documents")
    parser.add_argument("--commit", required=True, help="the commit that runs, for the documents")
    parser.add_argument("--stage", action="append", choices=list(TOPICS), help="default: both; repeatable")
    parser.add_argument("--variant", action="append", choices=SCAN_VARIANTS, help="default: all; repeatable")
    options = parser.parse_args(arguments)
    return exit_code(lambda: measure_stages(options))


if __name__ == "__main__":
    sys.exit(main())
