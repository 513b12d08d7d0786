"""How soon the forward is ready on the first GPU: from an empty cache, with each compiler, and with bundled cubins.

    python -m tools.gpu_start --out DIR --commit COMMIT

Needs torch for CUDA, cuda-bindings, pydantic, nvcc, ninja, g++ and NVRTC. Writes DIR/start.<card>.json and prints a
table. Exit codes: 0 all limits hold, 1 not, 2 could not run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from loomgen.bench.timing import spread
from loomgen.errors import LoomgenError
from loomgen.evidence import first_card, write_evidence
from loomgen.ops.device import DeviceForward
from loomgen.ops.dispatch import FAMILY, GATES, SLACK, STAGES, TABLES
from loomgen.registry import KernelEntry, Registry
from loomgen.root import kernel_root
from loomgen.runtime.bundle import Bundle
from loomgen.runtime.compilers import VARIABLE, find_compiler
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import CudaDriver
from loomgen.runtime.kernels import DeviceKernels
from loomgen.verify.op import CASES
from tools.arguments import out_folder
from tools.gpu_evidence import Row, built_versions, line
from tools.operator_calls import make_call
from tools.running import exit_code

GPU = torch.device("cuda", 0)
COMPILERS = ("nvcc", "nvrtc")
COLD_BUILD_SECONDS = 60.0
FIRST_CALL_SECONDS = 1.0
N_FIRST_CALLS = 3


def forward_kernels(registry: Registry) -> list[KernelEntry]:
    """Every kernel that a forward can launch."""
    stages = (*STAGES, GATES, TABLES, SLACK)
    return [kernel for kernel in registry.kernels if kernel.family == FAMILY and kernel.stage in stages]


@contextmanager
def compiling_with(compiler: str) -> Iterator[None]:
    """Missing cubins are made by ``compiler`` inside the context."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = compiler
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before


def built(compiler: str, scratch: Path) -> DeviceKernels:
    """The GPU's kernels of the forward, made by ``compiler`` into a cache in ``scratch``, and loaded."""
    store = CubinStore(root=kernel_root(), cache=scratch / compiler, bundle=Bundle(scratch / "no bundle"))
    kernels = DeviceKernels(0, CudaDriver(), store)
    with compiling_with(compiler):
        kernels.prepare(forward_kernels(kernels.registry))
    return kernels


def cold_build(compiler: str, scratch: Path) -> Row:
    start = time.perf_counter()
    kernels = built(compiler, scratch)
    seconds = time.perf_counter() - start
    measured = {"seconds": seconds, "kernels": len(forward_kernels(kernels.registry))}
    ok = seconds < COLD_BUILD_SECONDS
    return Row(check="cold build", case=compiler, measured=measured, bound=COLD_BUILD_SECONDS, ok=ok)


def write_bundle(scratch: Path, bundle: Path) -> None:
    """What nvcc made, as a bundle."""
    with compiling_with("nvcc"):
        kernels = built("nvcc", scratch)
        cubins = kernels.store.cubins(forward_kernels(kernels.registry), kernels.target)
    paths = {name: scratch / f"{name}.cubin" for name in cubins}
    for name, cubin in cubins.items():
        paths[name].write_bytes(cubin)
    Bundle(bundle).write(kernels.registry, kernels.target, kernels.store.root, paths, "as built here")


def first_call(bundle: Path) -> float:
    """Seconds from a running torch, with the inputs on the GPU, to the results of a first call with bundled cubins."""
    given = make_call(CASES[0]).on(GPU).arguments()
    torch.cuda.synchronize()
    start = time.perf_counter()
    store = CubinStore(root=bundle, cache=bundle / "no cache", bundle=Bundle(bundle))
    DeviceForward(DeviceKernels(0, CudaDriver(), store)).run(given)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def timed_first_call(bundle: Path) -> float:
    """The same, in a process of its own that finds no compiler."""
    command = [sys.executable, "-m", "tools.gpu_start", "--first-call", str(bundle)]
    environ = {**os.environ, VARIABLE: "nvcc", "LOOMGEN_NVCC": "/nowhere/nvcc"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LoomgenError(f"the first call with bundled cubins failed:\n{done.stderr.strip()}")
    return float(done.stdout)


def first_calls(bundle: Path) -> Row:
    seconds = spread([timed_first_call(bundle) for _ in range(N_FIRST_CALLS)])
    measured = {"median_seconds": seconds.median, "largest_seconds": seconds.high, "processes": N_FIRST_CALLS}
    ok = seconds.high < FIRST_CALL_SECONDS
    return Row(
        check="first call", case="bundled cubins, no compiler", measured=measured, bound=FIRST_CALL_SECONDS, ok=ok
    )


def results(scratch: Path) -> Iterator[Row]:
    for compiler in COMPILERS:
        yield cold_build(compiler, scratch)
    write_bundle(scratch, scratch / "bundle")
    yield first_calls(scratch / "bundle")


def measure(out: Path, commit: str) -> bool:
    """Whether all limits hold."""
    card = first_card()
    used = {**built_versions(), "nvrtc": find_compiler({VARIABLE: "nvrtc"}).version}
    rows = []
    with TemporaryDirectory() as scratch:
        for row in results(Path(scratch)):
            rows.append(row)
            print(line(row), flush=True)
    command = f"python -m tools.gpu_start --out DIR --commit {commit}"
    write_evidence(out, "start", card, [asdict(row) for row in rows], command=command, commit=commit, versions=used)
    return all(row.ok for row in rows)


def run(options: argparse.Namespace) -> bool:
    if options.first_call is None:
        return measure(options.out, options.commit)
    print(first_call(options.first_call))
    return True


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_start", description="How soon the forward is ready on the first GPU.")
    parser.add_argument("--out", type=out_folder, default=Path("build"), help="folder for the document")
    parser.add_argument("--commit", help="the commit that runs, for the document")
    parser.add_argument("--first-call", type=Path, help="only time a first call with this bundle")
    options = parser.parse_args(given)
    if options.first_call is None and options.commit is None:
        parser.error("--commit is missing")
    return exit_code(lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
