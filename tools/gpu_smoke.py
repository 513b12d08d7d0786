"""Run the stages that every forward has on the first GPU, through the runtime: compared, repeated, timed.

    python -m tools.gpu_smoke --out DIR

Needs torch for CUDA, cuda-bindings, pydantic, nvcc and ninja. Writes DIR/gpu_smoke.json and prints it. Exit codes: 0
all checks hold, 1 not, 2 could not run.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from loomgen import golden
from loomgen.documents import write_document
from loomgen.ops.dispatch import ACTIVATIONS, CHUNK, HEAD_DIMS, STEPS, CallShape, ScanVariant, select
from loomgen.registry import KernelEntry, Registry
from loomgen.runtime.bind import Value, bind
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import CudaDriver
from loomgen.runtime.dtypes import TORCH_DTYPES
from loomgen.runtime.kernels import DeviceKernels
from loomgen.runtime.launch import LaunchPlan, PreparedLaunch, prepare_plan
from loomgen.runtime.resident import upload
from loomgen.runtime.tables import window_tables
from loomgen.verify import relative_l2, same_bits
from tools.arguments import out_folder
from tools.host_time import median_us
from tools.running import exit_code

LENGTHS = (0, 15, 64, 65, 200)
KEY_HEADS, VALUE_HEADS = 2, 4
VARIANTS: tuple[ScanVariant, ...] = ("r32k2", "r32k1", "r64k1")

N_REPEATS = 100
BOUNDS = {"o": 4.5e-3, "ht": 3.5e-3}
"""Relative L2 errors against float64: independent random keys, normalised, mild gates."""

_DEVICE = torch.device("cuda", 0)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One forward: its head dim, the dtype of q, k, v, that of beta, and the variant of its state scan."""

    head_dim: int
    activation: torch.dtype
    step: torch.dtype
    variant: ScanVariant

    def __str__(self) -> str:
        names = (str(self.activation).removeprefix("torch."), str(self.step).removeprefix("torch."))
        return f"dim {self.head_dim}, {names[0]}, beta {names[1]}, {self.variant}"

    def stages(self, registry: Registry) -> tuple[KernelEntry, ...]:
        shape = CallShape(
            n_sequences=len(LENGTHS),
            value_heads=VALUE_HEADS,
            head_dim=self.head_dim,
            activation=self.activation,
            step=self.step,
        )
        return select(registry, shape, self.variant).in_order()


DEFAULT = Case(head_dim=128, activation=torch.bfloat16, step=torch.float32, variant="r32k2")


def cases() -> Iterator[Case]:
    """Together they run every kernel of the stages that every forward has."""
    for head_dim, activation, step, variant in product(HEAD_DIMS, ACTIVATIONS, STEPS, VARIANTS):
        yield Case(head_dim=head_dim, activation=activation, step=step, variant=variant)


def inputs(case: Case) -> dict[str, Tensor]:
    """The tensors of a call, by their names in the specs, on the CPU."""
    random = torch.Generator().manual_seed(7)
    n_tokens, dim = sum(LENGTHS), case.head_dim

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    return {
        "q": normal(n_tokens, KEY_HEADS, dim).to(case.activation),
        "k": normal(n_tokens, KEY_HEADS, dim).to(case.activation),
        "v": normal(n_tokens, VALUE_HEADS, dim).to(case.activation),
        "gate": torch.nn.functional.logsigmoid(normal(n_tokens, VALUE_HEADS)) / 16,
        "step": normal(n_tokens, VALUE_HEADS).sigmoid().to(case.step),
        "h0": normal(len(LENGTHS), VALUE_HEADS, dim, dim),
    }


def expected(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """``o`` and ``ht`` in float64."""
    offsets = window_tables(LENGTHS, CHUNK).cu_seqlens
    o, ht = golden.chunk_gated_delta_rule(
        *(given[name] for name in ("q", "k", "v", "gate", "step")),
        initial_state=given["h0"],
        cu_seqlens=offsets,
        use_qk_l2norm=True,
        state_v_first=True,
    )
    return {"o": o, "ht": ht}


@dataclass(frozen=True, kw_only=True)
class Forward:
    """A case on the GPU: its tensors by name, and the plan that runs it."""

    tensors: dict[str, Tensor]
    outputs: tuple[str, ...]
    launches: tuple[PreparedLaunch, ...]
    plan: LaunchPlan

    def run(self) -> None:
        self.plan.run([self.tensors[name].data_ptr() for name in self.plan.names])

    def spoil(self) -> None:
        """Overwrites every output, so that what a launch leaves out shows."""
        for name in self.outputs:
            self.tensors[name].fill_(float("nan"))

    def results(self) -> dict[str, Tensor]:
        return {name: self.tensors[name].clone() for name in self.outputs}


def make_forward(kernels: DeviceKernels, case: Case) -> Forward:
    stages = case.stages(kernels.registry)
    given = {name: x.to(_DEVICE) for name, x in inputs(case).items()}
    tables = upload(window_tables(LENGTHS, CHUNK).by_name(), _DEVICE)
    sizes = {
        "T": sum(LENGTHS),
        "N": len(LENGTHS),
        "NC": len(tables.tensors["chunk_len"]),
        "H": KEY_HEADS,
        "HV": VALUE_HEADS,
    }
    outputs = {
        argument.name: torch.empty(
            [extent if isinstance(extent, int) else sizes[extent] for extent in argument.shape],
            dtype=TORCH_DTYPES[argument.dtype],
            device=_DEVICE,
        )
        for stage in stages
        for argument in stage.arguments
        if argument.access == "out"
    }
    scalars: dict[str, Value] = {"normalise": True, "eps": 1e-6, "scale": case.head_dim**-0.5}
    everything: dict[str, Value] = {**given, **outputs, **scalars}
    plan = prepare_plan(kernels, stages, everything, tables)
    launches = [PreparedLaunch(bind(stage, {**everything, **tables.tensors}), kernels) for stage in stages]
    return Forward(tensors={**given, **outputs}, outputs=tuple(outputs), launches=tuple(launches), plan=plan)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Equal bit by bit, NaNs included."""
    return all(same_bits(x, b[name]) for name, x in a.items())


def accuracy(forward: Forward, case: Case) -> dict[str, float]:
    """Relative L2 errors of ``o`` and the final state."""
    return {name: relative_l2(forward.tensors[name].cpu(), wanted) for name, wanted in expected(inputs(case)).items()}


def n_different_repeats(forward: Forward, reference: dict[str, Tensor]) -> int:
    different = 0
    for _ in range(N_REPEATS):
        forward.spoil()
        forward.run()
        different += not same(reference, forward.results())
    return different


def check_case(kernels: DeviceKernels, case: Case) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The row of a case, and its results."""
    forward = make_forward(kernels, case)
    forward.spoil()
    forward.run()
    reference = forward.results()
    errors = accuracy(forward, case)
    different = n_different_repeats(forward, reference)
    ok = different == 0 and all(errors[name] <= bound for name, bound in BOUNDS.items())
    row = {"case": str(case), "errors": errors, "repeats": N_REPEATS, "different_repeats": different, "ok": ok}
    return row, reference


def variants_agree(results: dict[Case, dict[str, Tensor]]) -> bool:
    """The variants of the state scan give the same bits."""
    reference = {(c.head_dim, c.activation, c.step): bits for c, bits in results.items() if c.variant == VARIANTS[0]}
    return all(same(bits, reference[c.head_dim, c.activation, c.step]) for c, bits in results.items())


def from_elsewhere(kernels: DeviceKernels) -> dict[str, bool]:
    """The same bits from a graph's replay, from another stream, and from a thread that never called CUDA."""
    forward = make_forward(kernels, DEFAULT)
    forward.run()
    torch.cuda.synchronize()
    reference = forward.results()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward.run()

    def on_a_stream() -> None:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            forward.run()
        torch.cuda.current_stream().wait_stream(stream)

    def in_a_thread() -> None:
        thread = threading.Thread(target=forward.run)
        thread.start()
        thread.join()

    ways: dict[str, Callable[[], None]] = {"graph": graph.replay, "stream": on_a_stream, "thread": in_a_thread}
    found = {}
    for name, run in ways.items():
        forward.spoil()
        run()
        torch.cuda.synchronize()
        found[name] = same(reference, forward.results())
    return found


def host_times(kernels: DeviceKernels) -> dict[str, float]:
    """Medians in microseconds: one launch of each kernel, all of them as a plan."""
    forward = make_forward(kernels, DEFAULT)
    stream = kernels.driver.current_stream(kernels.device)
    addresses = [forward.tensors[name].data_ptr() for name in forward.plan.names]
    single = {
        f"launch {launch.kernel.stage}": median_us(lambda launch=launch: launch.launch(stream))  # type: ignore[misc]
        for launch in forward.launches
    }
    return {**single, "plan": median_us(lambda: forward.plan.run(addresses))}


def kernels_of_cases(registry: Registry) -> list[KernelEntry]:
    """What :func:`cases` run, each once."""
    return list({stage.name: stage for case in cases() for stage in case.stages(registry)}.values())


def smoke() -> dict[str, Any]:
    kernels = DeviceKernels(0, CudaDriver(), CubinStore())
    used = kernels_of_cases(kernels.registry)
    kernels.prepare(used)
    rows, results = [], {}
    for case in cases():
        row, results[case] = check_case(kernels, case)
        rows.append(row)
    checks = {
        "cases": all(row["ok"] for row in rows),
        "variants_agree": variants_agree(results),
        **from_elsewhere(kernels),
    }
    return {
        "card": torch.cuda.get_device_name(_DEVICE),
        "torch": torch.__version__,
        "target": kernels.target.name,
        "kernels": len(used),
        "host_microseconds": host_times(kernels),
        "cases": rows,
        "checks": checks,
    }


def measure(out: Path) -> bool:
    """Whether all checks hold."""
    document = smoke()
    write_document(out / "gpu_smoke.json", document)
    print(json.dumps(document, indent=2))
    return all(document["checks"].values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_smoke", description="The forward's kernels on the first GPU.")
    parser.add_argument("--out", type=out_folder, default=Path("build"), help="folder for gpu_smoke.json")
    options = parser.parse_args(arguments)
    return exit_code(lambda: measure(options.out))


if __name__ == "__main__":
    sys.exit(main())
