"""Tensors of classes without memory of their own: read by way of torch's dispatcher, or refused, never left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from loomgen.ops import chunk_gated_delta_rule
from loomgen.ops.arguments import has_subclasses
from loomgen.verify import OpCase
from tests.ops.call import arguments
from tests.ops.gradients import cotangents, equal, gradients, leaves, pulled
from tests.ops.test_device import arguments as device_arguments
from tests.ops.test_device_backward import derived, emulator, gpu_for

CASE = OpCase(name="few", lengths=(3, 5), heads=(1, 2), head_dim=64, raw_gates=torch.float32)


class Held(Tensor):
    """As torch's asynchronous collectives return them: the elements are another tensor's, and its own address is 0."""

    held: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Held:
        made: Held = Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device
        )
        made.held = inner
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = tree_map_only(Held, lambda x: x.held, (args, kwargs or {}))
        return function(*args, **kwargs)


def test_only_plain_tensors_and_parameters_are_read_where_they_lie() -> None:
    x = torch.zeros(2)
    assert not has_subclasses((x, torch.nn.Parameter(x), None, True, 1.0, "minimal"))
    assert has_subclasses((x, Held(x))) and Held(x).data_ptr() == 0


@pytest.mark.parametrize("name", ["k", "g", "initial_state", "A_log", "dt_bias"])
def test_arguments_mean_what_they_hold(name: str) -> None:
    given = arguments(CASE)
    wanted = chunk_gated_delta_rule(**given)
    found = chunk_gated_delta_rule(**{**given, name: Held(given[name])})
    for x, expected in zip(found, wanted, strict=True):
        assert x is not None and expected is not None and torch.equal(x, expected)


@pytest.mark.parametrize("held", ["do", "dht"])
def test_gradients_mean_what_they_hold(held: str) -> None:
    do, dht = cotangents(CASE)
    of = (Held(do), dht) if held == "do" else (do, Held(dht))
    given = arguments(CASE)
    wanted = leaves(given)
    found = pulled(chunk_gated_delta_rule(**{**given, **wanted}), wanted, of)
    assert equal(found, gradients(CASE, do=do, dht=dht))


def test_on_a_gpu_gradients_mean_what_they_hold() -> None:
    call, (do, dht) = device_arguments(CASE), cotangents(CASE)
    assert equal(derived(gpu_for(call).runner, call, (do, Held(dht))), derived(emulator(call), call, (do, dht)))


def test_on_a_gpu_no_kernel_takes_a_tensor_without_memory_for_one_that_was_not_given() -> None:
    call = device_arguments(CASE)
    assert call.initial_state is not None
    with pytest.raises(TypeError, match=r"^a Held without memory, expected a plain tensor$"):
        gpu_for(call).forward.run(call._replace(initial_state=Held(call.initial_state)))
