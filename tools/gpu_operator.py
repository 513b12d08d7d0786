"""Run the operator on the first GPU: compared with float64, repeated, recorded, and timed on the host.

    python -m tools.gpu_operator --out DIR --commit COMMIT

Needs torch for CUDA, cuda-bindings, pydantic, nvcc, ninja and, for the emulator, g++. Writes
DIR/operator.<card>.json and prints a table. Exit codes: 0 all checks hold, 1 not, 2 could not run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path

import torch

from loomgen import golden
from loomgen.bench.gpu import host_microseconds
from loomgen.bench.timing import Spread
from loomgen.evidence import Card, first_card, write_evidence
from loomgen.verify import relative_l2
from loomgen.verify.machines import spoil
from loomgen.verify.op import CASES, OP_BOUND, OpCase, golden_op, op_inputs
from tools.arguments import out_folder
from tools.gpu_evidence import Row, built_versions, line
from tools.host_time import measured, medians_in_turn, training_host_times
from tools.operator_calls import Call, Results, built_kernels, make_call, make_exact_call, moved, same
from tools.running import exit_code

GPU = torch.device("cuda", 0)

N_REPEATS = 100
N_NEW_LENGTHS = 20
HOST_MICROSECONDS = 80.0

LARGE = (
    OpCase(name="8 documents of 4,165 tokens", lengths=(1024, 0, 1, 63, 2048, 65, 900, 64), heads=(4, 8)),
    OpCase(name="2 x 2048, 16/32 heads", lengths=(2048, 2048), heads=(16, 32), packed=False),
    OpCase(name="head dim 64, f16, views, 3,000 tokens", lengths=(2000, 1000), heads=(4, 4), head_dim=64,
           dtype=torch.float16, views=True, state_v_first=True),
)  # fmt: skip
"""Too long for the recurrence on a CPU; the GPU computes that in float64 as well."""

RAGGED = CASES[0]
REPEATED = (
    RAGGED,
    next(case for case in CASES if case.views),
    next(case for case in CASES if case.slack),
    OpCase(name="head dim 64, f16, bf16 beta", lengths=(0, 129, 65), head_dim=64, dtype=torch.float16,
           step=torch.bfloat16),
)  # fmt: skip
TIMED = (
    RAGGED,
    OpCase(name="1 x 4096, 4/12 heads", lengths=(4096,), heads=(4, 12), packed=False),
    OpCase(name="1 x 4096 packed, 4/12 heads", lengths=(4096,), heads=(4, 12)),
    OpCase(name="4 x 4096 packed, 16/32 heads", lengths=(4096,) * 4, heads=(16, 32)),
)
EXACT = (
    OpCase(name="head dim 128, bf16", lengths=(0, 15, 64, 65, 200), heads=(2, 4), normalise=False),
    OpCase(name="head dim 64, f16, beta bf16", lengths=(130, 7), head_dim=64, dtype=torch.float16, normalise=False,
           step=torch.bfloat16, state_v_first=True),
)  # fmt: skip


def expected(call: Call) -> Results:
    """The recurrence in float64: on the CPU for small cases, else on the GPU."""
    if call.case not in LARGE:
        return golden_op(call.case, op_inputs(call.case, 0))
    given = {**moved(call.tensors, GPU), "cu_seqlens": call.tensors["cu_seqlens"]}
    with GPU:
        return golden.recurrent_gated_delta_rule(
            **given,  # type: ignore[arg-type]
            use_qk_l2norm=call.case.normalise,
            state_v_first=call.case.state_v_first,
        )


def accuracy(case: OpCase) -> Row:
    """Relative L2 errors against float64; the GPU reads the lengths itself, after every value has been checked."""
    call = make_call(case)
    results = call.on(GPU).run(cu_seqlens_cpu=None, checked=True)
    pairs = zip(("o", "final_state"), results, expected(call), strict=True)
    errors = {name: relative_l2(found.cpu(), wanted.cpu()) for name, found, wanted in pairs}
    return Row(
        check="float64", case=case.name, measured=errors, bound=OP_BOUND, ok=all(e <= OP_BOUND for e in errors.values())
    )


def repeats(case: OpCase) -> Row:
    call = make_call(case).on(GPU)
    first = call.run()
    different = 0
    for _ in range(N_REPEATS):
        spoil(GPU)
        different += not same(first, call.run())
    return Row(
        check="repeats", case=case.name, measured={"different": different, "of": N_REPEATS}, bound=0, ok=not different
    )


def alone(case: OpCase) -> Row:
    """Each sequence by itself against the same sequence in the pack."""
    call = make_call(case).on(GPU)
    o, final = call.run()
    different = 0
    for n, (begin, end) in enumerate(pairwise((0, *accumulate(case.lengths)))):
        part = {name: x[:, begin:end] for name in ("q", "k", "v", "g", "beta") if (x := call.tensors[name]) is not None}
        state = call.tensors["initial_state"]
        found = call.run(
            **part,
            initial_state=None if state is None else state[n : n + 1],
            cu_seqlens=None,
            cu_seqlens_cpu=None,
        )
        different += not same(found, (o[:, begin:end], final[n : n + 1]))
    measured = {"different": different, "of": len(case.lengths)}
    return Row(check="alone", case=case.name, measured=measured, bound=0, ok=not different)


def graph(case: OpCase) -> Row:
    """A recorded call, replayed after its inputs were overwritten, against calls that are not recorded."""
    call, others = make_call(case).on(GPU), make_call(case, seed=1).on(GPU)
    wanted = others.run()
    call.run()
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        results = call.run()
    for name in ("q", "k", "v", "g", "beta", "initial_state"):
        x, y = call.tensors[name], others.tensors[name]
        if x is not None and y is not None:
            x.copy_(y)
    different = 0
    for _ in range(3):
        recorded.replay()
        torch.cuda.synchronize()
        different += not same(results, wanted)
    return Row(check="graph", case=case.name, measured={"different": different, "of": 3}, bound=0, ok=not different)


def device_lengths(case: OpCase) -> Row:
    """Calls without a host copy of the offsets, none of which may wait for the GPU, and replays of a recorded one for
    other lengths, against calls whose lengths the host knows.
    """
    call = make_call(case).on(GPU)
    offsets = call.tensors["cu_seqlens"]
    assert offsets is not None
    lengths = [offsets.cpu(), offsets.cpu() // 2, offsets.cpu() * 0]
    wanted = [call.run(cu_seqlens=each.to(GPU), cu_seqlens_cpu=each) for each in lengths]
    call.run(cu_seqlens_cpu=None)
    torch.cuda.synchronize()
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        replayed = call.run(cu_seqlens_cpu=None)
    different = 0
    for each, expect in zip(lengths, wanted, strict=True):
        offsets.copy_(each)
        spoil(GPU)
        different += not same(without_waiting(call), expect)
        recorded.replay()
        torch.cuda.synchronize()
        different += not same(replayed, expect)
    measured = {"different": different, "of": 2 * len(lengths)}
    return Row(check="on device", case=case.name, measured=measured, bound=0, ok=not different)


def without_waiting(call: Call) -> Results:
    """Raises RuntimeError where torch waits for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        return call.run(cu_seqlens_cpu=None)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def streams(case: OpCase) -> Row:
    """Two streams at once, each with its own inputs and both through one plan, against one stream."""
    calls = [make_call(case, seed).on(GPU) for seed in (0, 1)]
    wanted = [call.run() for call in calls]
    torch.cuda.synchronize()
    lanes = [torch.cuda.Stream(GPU) for _ in calls]  # type: ignore[no-untyped-call]
    found: list[list[Results]] = [[], []]
    for _ in range(20):
        for call, lane, results in zip(calls, lanes, found, strict=True):
            with torch.cuda.stream(lane):
                results.append(call.run())
    torch.cuda.synchronize()
    different = sum(not same(x, y) for results, y in zip(found, wanted, strict=True) for x in results)
    return Row(check="streams", case=case.name, measured={"different": different, "of": 40}, bound=0, ok=not different)


def emulator(case: OpCase, arch: str) -> Row:
    """Elements that differ from the emulator's, on inputs whose sums are exact."""
    call = make_exact_call(case)
    wanted, found = call.run(backend=f"emulate:{arch}"), call.on(GPU).run()
    different = sum(int((x != y.cpu()).sum()) for x, y in zip(wanted, found, strict=True))
    ok = same(found, wanted)
    return Row(check="emulator", case=case.name, measured={"different": different}, bound=0, ok=ok)


def host_times() -> Iterator[Row]:
    calls = {case.name: make_call(case).on(GPU) for case in TIMED}
    medians = medians_in_turn({name: call.run for name, call in calls.items()})
    for name, call in calls.items():
        yield host_time(call, medians[name])


def host_time(call: Call, medians: Spread) -> Row:
    """Of warm calls, and of a call whose lengths are new, for which a plan is made."""
    found = measured(medians)
    if call.case.packed:
        found["new_lengths_us"] = statistics.median(new_lengths(call))
    ok = medians.low <= HOST_MICROSECONDS
    return Row(check="host time", case=call.case.name, measured=found, bound=HOST_MICROSECONDS, ok=ok)


def new_lengths(call: Call) -> Iterator[float]:
    """The times of calls that each have one token less in their last sequence than the one before."""
    host = call.options["cu_seqlens_cpu"].clone()
    for _ in range(N_NEW_LENGTHS):
        host[-1] -= 1
        given = {"cu_seqlens": host.to(GPU), "cu_seqlens_cpu": host}
        yield host_microseconds(lambda given=given: call.run(**given))  # type: ignore[misc]


def results(arch: str) -> Iterator[Row]:
    yield from (accuracy(case) for case in (*CASES, *LARGE))
    for check in (repeats, alone, device_lengths):
        yield from (check(case) for case in REPEATED)
    yield from (check(RAGGED) for check in (graph, streams))
    yield from (emulator(case, arch) for case in EXACT)
    yield from host_times()
    yield from training_host_times()


def write_rows(out: Path, card: Card, commit: str, rows: Sequence[Row]) -> None:
    command = f"python -m tools.gpu_operator --out DIR --commit {commit}"
    found = [asdict(row) for row in rows]
    write_evidence(out, "operator", card, found, command=command, commit=commit, versions=built_versions())


def measure(out: Path, commit: str) -> bool:
    """Whether all checks hold."""
    card = first_card()
    kernels = built_kernels()
    rows = []
    for row in results(kernels.target.name):
        rows.append(row)
        print(line(row), flush=True)
    write_rows(out, card, commit, rows)
    n_failed = sum(not row.ok for row in rows)
    print(f"{len(rows)} checks, {n_failed} failed")
    return not n_failed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="gpu_operator", description="The operator on the first GPU.")
    parser.add_argument("--out", type=out_folder, default=Path("build"), help="folder for the document")
    parser.add_argument("--commit", required=True, help="the commit that runs, for the document")
    options = parser.parse_args(arguments)
    return exit_code(lambda: measure(options.out, options.commit))


if __name__ == "__main__":
    sys.exit(main())
