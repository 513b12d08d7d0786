"""Check and time the example product of two roles on the first GPU, beside torch's (cuBLAS).

    python -m tools.gpu_matmul prepare --out PROJECT            # anywhere: the stage rendered with dims of 8192
    python -m tools.gpu_matmul run --project PROJECT --out DIR --commit SHA

``run`` needs torch for CUDA, cuda-bindings, pydantic, nvcc and ninja; it writes DIR/matmul_tma.<card>.json. Exit codes:
0 all is well, 1 a result is wrong, a repetition differs, or the product is slower than 70 % of torch's, 2 could not
run.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from loomgen.bench.timing import Spread, interleaved, spread
from loomgen.evidence import Card, first_card, write_evidence
from loomgen.verify import relative_l2
from tools.arguments import out_folder
from tools.gpu_evidence import TORCH_VERSIONS
from tools.running import exit_code

STAGE = "matmul_tma"
SIZE = 8192
WARMUPS, CALLS, REPEATS = 5, 30, 20
FRACTION_OF_CUBLAS = 0.7
BOUND = 3e-3
"""Relative L2 against float64: one rounding of the result to bf16 is 1.7e-3."""


def prepare(out: Path) -> bool:
    """Writes a project with the stage alone, M = O = K = SIZE."""
    from loomgen.cli.project import compiler, default_root, headers
    from loomgen.render import render_tree
    from loomgen.spec import load
    from loomgen.target import target_named

    text = (default_root() / "specs" / "examples" / f"{STAGE}.yaml").read_text()
    path = out / "specs" / "examples" / f"{STAGE}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(re.sub(r"(?m)^dims: .*$", f"dims: {{M: {SIZE}, O: {SIZE}, K: {SIZE}, KB: 64}}", text))
    tree = render_tree(load([path], out), [target_named("sm_90a")], compiler(), headers())
    for name, content in tree.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    return True


def run(project: Path, out: Path, commit: str) -> bool:
    from loomgen.bench.gpu import DEVICE, GpuTimer
    from loomgen.runtime.cubins import CubinStore
    from loomgen.runtime.driver import CudaDriver
    from loomgen.runtime.kernels import DeviceKernels
    from loomgen.runtime.launch import prepare_plan
    from loomgen.runtime.resident import upload
    from loomgen.runtime.tables import window_tables

    card = first_card()
    kernels = DeviceKernels(0, CudaDriver(), CubinStore(root=project))
    (kernel,) = kernels.registry.kernels
    tensors = {name: torch.empty(SIZE, SIZE, dtype=torch.bfloat16, device=DEVICE) for name in ("a", "b", "out")}
    plan = prepare_plan(kernels, [kernel], tensors, upload(window_tables([1], 64).by_name(), DEVICE))

    def ours() -> torch.Tensor:
        plan.run([tensors[name].data_ptr() for name in plan.names])
        return tensors["out"]

    def cublas() -> torch.Tensor:
        return torch.matmul(tensors["a"], tensors["b"].T)

    checks = {"integers": _integers_are_exact(tensors, ours), **_floats(tensors, ours)}
    timer, calls = GpuTimer(), {"loomgen": ours, "cublas": cublas}
    interleaved(calls, WARMUPS, timer.call_ms)
    times = {name: spread(samples) for name, samples in interleaved(calls, CALLS, timer.call_ms).items()}
    return _report(checks, times, card, out, commit)


def _report(checks: dict[str, Any], times: dict[str, Spread], card: Card, out: Path, commit: str) -> bool:
    """Writes the evidence; whether all is right and fast enough."""
    fraction = times["cublas"].median / times["loomgen"].median
    row = {
        "row": f"{SIZE}x{SIZE}x{SIZE} bf16",
        "pass": "matmul",
        "kernel_ms": {name: found.median for name, found in times.items()},
        "kernel_range_ms": {name: [found.low, found.high] for name, found in times.items()},
        "tflops": {name: round(2e-9 * SIZE**3 / found.median, 1) for name, found in times.items()},
        "fraction_of_cublas": round(fraction, 4),
        **checks,
    }
    command = f"python -m tools.gpu_matmul run --project PROJECT --out DIR --commit {commit}"
    write_evidence(out, STAGE, card, [row], versions=TORCH_VERSIONS, commit=commit, command=command)
    print(json.dumps(row, indent=2))
    is_right = checks["integers"] and checks["repeats_equal"] == REPEATS and checks["rel_l2"]["out"] <= BOUND
    return bool(is_right and fraction >= FRACTION_OF_CUBLAS)


def _integers_are_exact(tensors: dict[str, torch.Tensor], ours: Callable[[], torch.Tensor]) -> bool:
    """Operands of -1, 0 and 1 have sums that fp32 holds exactly; both results round them once."""
    generator = torch.Generator(device="cuda").manual_seed(1)
    for name in ("a", "b"):
        tensors[name].copy_(torch.randint(-1, 2, (SIZE, SIZE), generator=generator, device="cuda"))
    exact = (tensors["a"].float() @ tensors["b"].float().T).bfloat16()
    return bool(torch.equal(ours(), exact))


def _floats(tensors: dict[str, torch.Tensor], ours: Callable[[], torch.Tensor]) -> dict[str, Any]:
    generator = torch.Generator(device="cuda").manual_seed(2)
    for name in ("a", "b"):
        tensors[name].copy_(torch.randn(SIZE, SIZE, generator=generator, device="cuda"))
    first = ours().clone()
    n_equal = sum(torch.equal(ours(), first) for _ in range(REPEATS))
    rows = slice(0, 512)
    exact = tensors["a"][rows].double() @ tensors["b"].double().T
    return {"repeats_equal": n_equal, "rel_l2": {"out": relative_l2(first[rows], exact)}}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare")
    running = commands.add_parser("run")
    preparing.add_argument("--out", type=out_folder, required=True)
    running.add_argument("--project", type=Path, required=True)
    running.add_argument("--out", type=out_folder, required=True)
    running.add_argument("--commit", required=True)
    options = parser.parse_args(arguments)
    if options.command == "prepare":
        return exit_code(lambda: prepare(options.out))
    return exit_code(lambda: run(options.project, options.out, options.commit))


if __name__ == "__main__":
    sys.exit(main())
