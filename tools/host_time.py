"""What calls cost the host: until they return, warm, with nothing queued before them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from loomgen.bench.gpu import host_microseconds
from loomgen.bench.timing import Spread, interleaved, spread
from loomgen.verify.op import CASES, OpCase
from tools.gpu_evidence import Row
from tools.operator_calls import Call, make_call

GPU = torch.device("cuda", 0)

N_TIMED = 200
N_ROUNDS = 20
IN_A_ROW = 10
TRAINING_MICROSECONDS = 150.0

TRAINED = (
    CASES[0],
    OpCase(name="1 x 4096 packed, 4/12 heads", lengths=(4096,), heads=(4, 12)),
    OpCase(name="4 x 4096 packed, 16/32 heads", lengths=(4096,) * 4, heads=(16, 32)),
)
_LEAVES = ("q", "k", "v", "g", "beta", "initial_state")


Step = Callable[[], object]


def median_us(call: Step, in_a_row: int = 1, after: Step | None = None) -> float:
    """Of :data:`N_TIMED` calls, ``in_a_row`` at a time."""
    return statistics.median(host_microseconds(call, in_a_row, after) for _ in range(N_TIMED // in_a_row))


def medians_in_turn(
    calls: Mapping[str, Step], n_rounds: int = N_ROUNDS, in_a_row: int = 1, after: Step | None = None
) -> dict[str, Spread]:
    """Of warm calls, ``in_a_row`` at a time, in turn: what else the machine does, for longer than a median takes, then
    meets all of them."""
    sample = partial(median_us, in_a_row=in_a_row, after=after)
    for call in calls.values():
        call()
    return {name: spread(medians) for name, medians in interleaved(calls, n_rounds, sample).items()}


def measured(medians: Spread) -> dict[str, float]:
    """The least of several medians, since other users of the machine come and go, their middle and the largest."""
    return {"median_us": medians.low, "middle_us": medians.median, "largest_us": medians.high}


def training(call: Call) -> Step:
    """A forward with its backward: the gradients of all inputs from that of ``o``."""
    leaves = {name: x.detach().requires_grad_() for name in _LEAVES if (x := call.tensors[name]) is not None}
    inputs = list(leaves.values())
    do = torch.ones_like(leaves["v"])

    def run() -> object:
        o, _ = call.run(**leaves)
        return torch.autograd.grad(o, inputs, do)

    return run


class _NoKernels(torch.autograd.Function):
    """A function that saves its inputs and allocates its result and gradients: what torch itself asks for them."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return torch.empty_like(inputs[2])

    @staticmethod
    def backward(ctx: Any, do: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.empty_like(x) for x in ctx.saved_tensors)


def without_kernels(call: Call) -> Step:
    """A training call of the same tensors that launches nothing."""
    leaves = [x.detach().requires_grad_() for name in _LEAVES if (x := call.tensors[name]) is not None]
    do = torch.ones_like(leaves[2])
    return lambda: torch.autograd.grad(_NoKernels.apply(*leaves), leaves, do)  # type: ignore[no-untyped-call]


def in_calling_thread(call: Step) -> Step:
    """The same with its backward in the thread that asks for it, not in the one that torch keeps for the GPU."""

    def run() -> object:
        with torch.autograd.set_multithreading_enabled(False):
            return call()

    return run


def training_host_times(cases: Sequence[OpCase] = TRAINED, n_rounds: int = N_ROUNDS) -> Iterator[Row]:
    """Of training calls, each alone, some in a row, and each in one thread; the least median of those alone is what is
    bounded. And of the last one without kernels, which is what any operator of torch pays."""
    made = {case.name: make_call(case).on(GPU) for case in cases}
    *_, last = made
    nothing = f"torch alone, {last}"
    calls = {**{name: training(call) for name, call in made.items()}, nothing: without_kernels(made[last])}
    in_a_row = medians_in_turn(calls, n_rounds, IN_A_ROW)
    in_one_thread = medians_in_turn({name: in_calling_thread(call) for name, call in calls.items()}, n_rounds)
    for name, medians in medians_in_turn(calls, n_rounds).items():
        more = {"in_a_row_us": in_a_row[name].low, "calling_thread_us": in_one_thread[name].low}
        yield _row(name, measured(medians) | more, bound=None if name == nothing else TRAINING_MICROSECONDS)
    yield after_kernels(calls[nothing], calls[last], last, n_rounds)


def after_kernels(nothing: Step, call: Step, name: str, n_rounds: int) -> Row:
    """Of ``nothing`` once the kernels of ``call`` are done, as a training call finds the host that follows another: the
    thread that torch keeps for the GPU has fallen asleep meanwhile."""
    (medians,) = medians_in_turn({name: nothing}, n_rounds, after=call).values()
    return _row(f"torch alone after {name}", measured(medians), bound=None)


def _row(case: str, found: dict[str, float], bound: float | None) -> Row:
    ok = bound is None or found["median_us"] <= bound
    return Row(check="training host time", case=case, measured=found, bound=bound, ok=ok)
