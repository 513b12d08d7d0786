"""Calls of the operator that the tools make: a case's tensors, on the CPU or on a GPU, and the kernels for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from loomgen.ops import chunk_gated_delta_rule
from loomgen.ops.arguments import Arguments
from loomgen.ops.dispatch import FAMILY
from loomgen.runtime.cubins import CubinStore
from loomgen.runtime.driver import CudaDriver
from loomgen.runtime.kernels import DeviceKernels
from loomgen.verify import same_bits
from loomgen.verify.op import OpCase, OpInputs, arguments_of, op_inputs

EXACT_SCALE = 0.25

Results = tuple[Tensor, Tensor]


def moved(tensors: dict[str, Tensor | None], device: torch.device) -> dict[str, Tensor | None]:
    """The tensors on ``device`` with the strides and the sharing of memory that they have."""
    memories: dict[int, Tensor] = {}

    def move(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in memories:
            flat = torch.empty(0, dtype=torch.uint8).set_(storage)
            memories[storage.data_ptr()] = flat.to(device, copy=True)
        memory = memories[storage.data_ptr()].view(x.dtype)
        return memory.as_strided(x.shape, x.stride(), x.storage_offset())

    return {name: None if x is None else move(x) for name, x in tensors.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A case with its tensors, by the operator's names, and the other arguments."""

    case: OpCase
    tensors: dict[str, Tensor | None]
    options: dict[str, Any]

    def run(self, **changes: Any) -> Results:
        """``o`` and the final state."""
        o, final = chunk_gated_delta_rule(**{**self.tensors, **self.options, **changes})
        assert final is not None
        return o, final

    def arguments(self) -> Arguments:
        """What the operator makes of it; the host knows the lengths where it is :meth:`on` a GPU."""
        inputs = OpInputs(**self.tensors)  # type: ignore[arg-type]
        made = arguments_of(self.case, inputs, cu_seqlens_cpu=self.options.get("cu_seqlens_cpu"))
        return made._replace(scale=self.options.get("scale"))

    def on(self, device: torch.device) -> Call:
        host = self.tensors["cu_seqlens"]
        options = {**self.options, "cu_seqlens_cpu": host}
        return replace(self, tensors=moved(self.tensors, device), options=options)


def make_call(case: OpCase, seed: int = 0) -> Call:
    """On the CPU."""
    inputs = op_inputs(case, seed)
    tensors = {name: getattr(inputs, name) for name in ("q", "k", "v", "g", "beta", "initial_state", "cu_seqlens")}
    if case.raw_gates is not None:
        tensors |= {"A_log": inputs.A_log, "dt_bias": inputs.dt_bias}
    options = {
        "output_final_state": True,
        "use_qk_l2norm_in_kernel": case.normalise,
        "state_v_first": case.state_v_first,
        **case.raw_flags,
    }
    return Call(case=case, tensors=tensors, options=options)


def make_exact_call(case: OpCase, seed: int = 0) -> Call:
    """One whose sums are exact in any order: small integers, no decay; keys are signed unit vectors, steps 0 or 1, so
    that a column of the state is replaced or kept, and the state stays as small as the values.
    """
    call = make_call(case, seed)
    random = torch.Generator().manual_seed(seed)

    def integers(like: Tensor, most: int) -> Tensor:
        return torch.randint(-most, most + 1, like.shape, generator=random).to(like.dtype)

    given = {name: x for name, x in call.tensors.items() if x is not None}
    q, k, v, state = (given[name] for name in ("q", "k", "v", "initial_state"))
    places = torch.randint(k.shape[-1], k.shape[:-1], generator=random)
    signs = 2 * torch.randint(2, k.shape[:-1], generator=random) - 1
    exact = {
        "q": integers(q, 1),
        "k": (torch.nn.functional.one_hot(places, k.shape[-1]) * signs[..., None]).to(k.dtype),
        "v": integers(v, 3),
        "g": torch.zeros_like(given["g"]),
        "beta": integers(given["beta"], 1).abs(),
        "initial_state": integers(state, 3),
    }
    return replace(call, tensors={**call.tensors, **exact}, options={**call.options, "scale": EXACT_SCALE})


def built_kernels() -> DeviceKernels:
    """The first GPU's kernels, all of the operator's built at once."""
    kernels = DeviceKernels(0, CudaDriver(), CubinStore())
    kernels.prepare([kernel for kernel in kernels.registry.kernels if kernel.family == FAMILY])
    return kernels


def same(a: Results, b: Results) -> bool:
    """Equal bit by bit."""
    return all(same_bits(x.cpu(), y.cpu()) for x, y in zip(a, b, strict=True))
