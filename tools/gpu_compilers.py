"""The forward as nvcc and as NVRTC compile it, on the first GPU: instructions, bits and times.

    python -m tools.gpu_compilers --out DIR --commit COMMIT

Needs torch for CUDA, cuda-bindings, pydantic, nvcc, ninja, g++, nvdisasm and NVRTC. Writes DIR/compilers.<card>.json
and prints a line a row. Exit codes: 0 all bits are equal, 1 not, 2 could not run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from loomgen.bench.gpu import DEVICE, GpuTimer
from loomgen.bench.inputs import Inputs, make_inputs
from loomgen.bench.timing import Settings, Spread, Timer, measure_times
from loomgen.bench.workloads import Case, Suite, select
from loomgen.evidence import first_card, write_evidence
from loomgen.ops.arguments import Arguments
from loomgen.ops.device import DeviceForward
from loomgen.runtime.compilers import VARIABLE, find_compiler
from loomgen.runtime.kernels import DeviceKernels
from loomgen.toolchain.find import NVDISASM, find_tool, tool_version
from loomgen.toolchain.sass import disassemble, instruction_mix
from loomgen.verify import same_bits
from tools import gpu_smoke
from tools.arguments import out_folder
from tools.gpu_evidence import built_versions
from tools.gpu_start import COMPILERS, built, compiling_with, forward_kernels
from tools.running import exit_code

ROWS = (
    "1x4096|4/12|packed",
    "4x4096|16/32|dense",
    "4x4096|16/32|packed",
    "1x16384|16/32|packed",
    "128x128|16/32|packed",
    "ragged7=30086|16/32|packed",
)
"""Of the training shapes: long sequences and short, few heads and many, both layouts."""

SETTINGS = Settings(calls=10, profiled=15, host_calls=20)

ByCompiler = Mapping[str, DeviceKernels]


def code_rows(kernels: ByCompiler, nvdisasm: Path, scratch: Path) -> Iterator[dict[str, Any]]:
    """Of each kernel the bytes of its cubins, the instructions in them, and the opcodes whose numbers differ."""
    cubins = {}
    for compiler, made in kernels.items():
        with compiling_with(compiler):
            cubins[compiler] = made.store.cubins(forward_kernels(made.registry), made.target)
    for name in next(iter(cubins.values())):
        found = {compiler: cubins[compiler][name] for compiler in kernels}
        yield code_row(name, found, {compiler: sass(cubin, nvdisasm, scratch) for compiler, cubin in found.items()})


def sass(cubin: bytes, nvdisasm: Path, scratch: Path) -> str:
    path = scratch / "kernel.cubin"
    path.write_bytes(cubin)
    return disassemble(nvdisasm, path)


def code_row(name: str, cubins: Mapping[str, bytes], texts: Mapping[str, str]) -> dict[str, Any]:
    mixes = {compiler: instruction_mix(text) for compiler, text in texts.items()}
    opcodes = sorted({opcode for mix in mixes.values() for opcode in mix})
    counts = {opcode: {compiler: mix.get(opcode, 0) for compiler, mix in mixes.items()} for opcode in opcodes}
    return {
        "row": name,
        "pass": "code",
        "cubin_bytes": {compiler: len(cubin) for compiler, cubin in cubins.items()},
        "instructions": {compiler: sum(mix.values()) for compiler, mix in mixes.items()},
        "same_sass": len(set(texts.values())) == 1,
        "differing_opcodes": {opcode: of for opcode, of in counts.items() if len(set(of.values())) > 1},
    }


def stage_rows(kernels: ByCompiler) -> Iterator[dict[str, Any]]:
    """Whether every tensor that a stage writes has the same bits, over cases that run every kernel of the stages that
    every forward has."""
    for case in gpu_smoke.cases():
        found = []
        for made in kernels.values():
            forward = gpu_smoke.make_forward(made, case)
            forward.spoil()
            forward.run()
            found.append(forward.results())
        first, *others = found
        equal = all(gpu_smoke.same(first, other) for other in others)
        yield {"row": str(case), "pass": "stages", "tensors": len(first), "equal": equal}


def arguments(x: Inputs) -> Arguments:
    return Arguments(
        q=x.q, k=x.k, v=x.v, g=x.g, beta=x.beta, scale=None, initial_state=x.initial_state, output_final_state=True,
        normalise=True, state_v_first=False, cu_seqlens=x.cu_seqlens, cu_seqlens_cpu=x.cu_seqlens_cpu,
        chunk_indices=None,
    )  # fmt: skip


def forward_row(case: Case, kernels: ByCompiler, timer: Timer, device: torch.device = DEVICE) -> dict[str, Any]:
    """Bits of the results, and times, of a call of the operator."""
    given = arguments(make_inputs(case, device))
    calls = {compiler: partial(DeviceForward(made).run, given) for compiler, made in kernels.items()}
    first, *others = (results(call()[:3]) for call in calls.values())
    equal = all(same_bits(x, y) for other in others for x, y in zip(first, other, strict=True))
    times = {compiler: found.kernel_ms for compiler, found in measure_times(calls, timer, SETTINGS).items()}
    return {"row": case.key, "pass": "fwd", "equal": equal, **reported(times)}


def results(found: Iterable[Tensor | None]) -> tuple[Tensor, ...]:
    return tuple(x for x in found if x is not None)


def reported(times: Mapping[str, Spread]) -> dict[str, Any]:
    nvcc, nvrtc = (times[compiler].median for compiler in COMPILERS)
    return {
        "kernel_ms": {compiler: of.median for compiler, of in times.items()},
        "kernel_range_ms": {compiler: [of.low, of.high] for compiler, of in times.items()},
        "nvrtc_over_nvcc": round(nvrtc / nvcc, 4),
    }


def rows_of(kernels: ByCompiler, nvdisasm: Path, scratch: Path) -> Iterator[dict[str, Any]]:
    yield from code_rows(kernels, nvdisasm, scratch)
    yield from stage_rows(kernels)
    timer = GpuTimer()
    for case in select((Suite.PERF,), ROWS):
        yield forward_row(case, kernels, timer)


def measure(out: Path, commit: str) -> bool:
    """Whether all bits are equal."""
    card, nvdisasm = first_card(), find_tool(NVDISASM)
    nvrtc = find_compiler({VARIABLE: "nvrtc"}).version
    used = {**built_versions(), "nvrtc": nvrtc, "nvdisasm": tool_version(nvdisasm)}
    rows = []
    with TemporaryDirectory() as scratch:
        kernels = {compiler: built(compiler, Path(scratch)) for compiler in COMPILERS}
        for row in rows_of(kernels, nvdisasm, Path(scratch)):
            rows.append(row)
            print(*row.values(), flush=True)
    command = f"python -m tools.gpu_compilers --out DIR --commit {commit}"
    write_evidence(out, "compilers", card, rows, command=command, commit=commit, versions=used)
    return all(row.get("equal", True) for row in rows)


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_compilers", description="nvcc beside NVRTC on the first GPU.")
    parser.add_argument("--out", type=out_folder, default=Path("build"), help="folder for the document")
    parser.add_argument("--commit", required=True, help="the commit that runs, for the document")
    options = parser.parse_args(given)
    return exit_code(lambda: measure(options.out, options.commit))


if __name__ == "__main__":
    sys.exit(main())
