"""The operator and its backward as the failure kinds try them: in the emulator, and launched for a GPU without one."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from loomgen.ops.arguments import Arguments
from loomgen.ops.autograd import Runner, differentiable
from loomgen.ops.batch import Batch, bounded_batch, known_batch
from loomgen.ops.device import DeviceForward
from loomgen.ops.device_backward import DeviceBackward
from loomgen.ops.packed import call_sizes
from loomgen.ops.workspace import Save
from loomgen.runtime.kernels import DeviceKernels
from loomgen.verify import OpCase, same_bits, verify_op
from loomgen.verify.machines import Call, Emulator, Results, make_call
from loomgen.verify.op import OpInputs, arguments_of
from loomgen.verify.op_gradients import with_gradients
from tests.ops.emulating_driver import EmulatingDriver, parameter_sizes
from tests.runtime.fake_cubins import NamesAsCubins
from tests.runtime.fake_driver import FakeDriver

BLACKWELL = (10, 0)


def emulated(call: Call) -> Results:
    """Results and gradients from the emulator, which faults at the first access outside a tensor."""
    return Emulator("sm_100a").run(call, 0)


def errors(case: OpCase, seed: int = 0) -> dict[str, float]:
    """Of results and gradients, against the float64 recurrence, as multiples of their bounds."""
    return {row.tensor: row.rel_l2 / row.bound for row in verify_op("chunk_gated_delta_rule", (seed,), cases=(case,))}


def same(a: Results, b: Results) -> bool:
    """The same tensors, bit for bit."""
    return a.keys() == b.keys() and all(same_bits(a[name].contiguous(), b[name].contiguous()) for name in a)


def differing(a: Results, b: Results) -> set[str]:
    return {name for name in a if not same_bits(a[name].contiguous(), b[name].contiguous())}


@dataclass
class Card:
    """The GPU's path: plans, launches and their parameters. ``driver`` may carry them out or only note them."""

    driver: FakeDriver = field(default_factory=lambda: FakeDriver(parameter_sizes(), {0: BLACKWELL}))
    cubins: NamesAsCubins = field(default_factory=NamesAsCubins)

    def __post_init__(self) -> None:
        kernels = DeviceKernels(0, self.driver, self.cubins)
        self.forward, self.backward = DeviceForward(kernels), DeviceBackward(kernels)

    def run(self, call: Call, *, on_device: bool = False, save: Save = "minimal") -> Results:
        """Results and gradients; ``on_device``: only the GPU knows the lengths."""
        runner = Runner(forward=self.forward.run, backward=self.backward.run)

        def run(leaves: OpInputs) -> tuple[Tensor, Tensor]:
            o, final = differentiable(runner, arguments(call.case, leaves, on_device=on_device), save)
            assert final is not None
            return o, final

        return with_gradients(run, call.inputs, call.given)


def on_emulated_card(call: Call, *, on_device: bool = False) -> Results:
    """The GPU's launches, carried out by the emulator on the addresses that they name."""
    case = call.case
    batch = _bounded(case) if on_device else known_batch(case.lengths)
    sizes = call_sizes(arguments(case, call.inputs), batch.n_sequences, batch.n_chunks)
    return Card(driver=EmulatingDriver(dims=sizes)).run(call, on_device=on_device)


def _bounded(case: OpCase) -> Batch:
    return bounded_batch(sum(case.lengths) + case.slack, len(case.lengths))


def arguments(case: OpCase, inputs: OpInputs, *, on_device: bool = False) -> Arguments:
    return arguments_of(case, inputs, cu_seqlens_cpu=None if on_device else inputs.cu_seqlens)


__all__ = [
    "BLACKWELL",
    "Call",
    "Card",
    "arguments",
    "differing",
    "emulated",
    "errors",
    "make_call",
    "on_emulated_card",
    "same",
]
