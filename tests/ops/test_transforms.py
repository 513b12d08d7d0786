"""What torch may be told to do around a call: other defaults change nothing, transforms are refused or traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

from loomgen.ops import chunk_gated_delta_rule
from loomgen.verify import OpCase
from tests.ops.call import arguments
from tests.ops.gradients import cotangents, equal, gradients, leaves, pulled
from tests.ops.test_device import arguments as device_arguments
from tests.ops.test_device_backward import derived, emulator, gpu_for

CASE = OpCase(name="few", lengths=(3, 5), heads=(1, 2), head_dim=64)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def results(**changes: Any) -> tuple[Tensor, Tensor]:
    o, final = chunk_gated_delta_rule(**{**arguments(CASE), **changes})
    assert final is not None
    return o, final


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_torch_s_default_dtype_changes_nothing(dtype: torch.dtype) -> None:
    given = {**arguments(CASE), "g": None}
    wanted = chunk_gated_delta_rule(**given)
    call, of = device_arguments(), cotangents(CASE)
    gradients_wanted = derived(emulator(call), call, of)
    with default_dtype(dtype):
        found = chunk_gated_delta_rule(**given)
        assert equal(derived(emulator(call), call, of), gradients_wanted)
        assert equal(derived(gpu_for(call).runner, call, of), gradients_wanted)
    for x, expected in zip(found, wanted, strict=True):
        assert x is not None and expected is not None and torch.equal(x, expected)


def test_torch_s_default_device_changes_nothing() -> None:
    given, wanted = arguments(CASE), results()
    call, of = device_arguments(), cotangents(CASE)
    with torch.device("meta"):
        found = chunk_gated_delta_rule(**given)
        assert equal(derived(gpu_for(call).runner, call, of), derived(emulator(call), call, of))
    assert all(x is not None and torch.equal(x, expected) for x, expected in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", ["q", "g", "initial_state"])
def test_a_tangent_is_refused(name: str) -> None:
    given = arguments(CASE)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=f"^{name}: has a tangent, expected none"):
        dual = forward_ad.make_dual(given[name], torch.ones_like(given[name]))  # type: ignore[no-untyped-call]
        chunk_gated_delta_rule(**{**given, name: dual})
    with forward_ad.dual_level():
        assert torch.equal(results()[0], results()[0])


TRANSFORMS: dict[str, Callable[[Callable[[Tensor], Tensor], Tensor], object]] = {
    "grad": lambda f, q: torch.func.grad(lambda q: f(q).sum())(q),
    "jvp": lambda f, q: torch.func.jvp(f, (q,), (torch.ones_like(q),)),
    "vmap": lambda f, q: torch.vmap(f)(q[None]),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_tensors_of_torch_func_are_refused(name: str) -> None:
    given = arguments(CASE)
    message = "^q: a tensor of torch.func, expected a plain one: vmap, grad and jvp are not supported$"
    with pytest.raises(NotImplementedError, match=message):
        TRANSFORMS[name](lambda q: chunk_gated_delta_rule(**{**given, "q": q})[0].float(), given["q"])


def test_on_a_gpu_a_view_that_is_negated_when_it_is_read_is_refused() -> None:
    """After a call like it but for that, too."""
    call, of = device_arguments(), cotangents(CASE)
    on = gpu_for(call)
    derived(on.runner, call, of)
    with pytest.raises(TypeError, match=r"^k: negated when it is read, expected its resolve_neg\(\)$"):
        derived(on.runner, call._replace(k=torch._neg_view(-call.k)), of)


def test_gradients_that_are_negated_when_they_are_read_are_those_they_stand_for() -> None:
    call, (do, dht) = device_arguments(), cotangents(CASE)
    of = (torch._neg_view(-do), torch._neg_view(-dht))
    for runner in (gpu_for(call).runner, emulator(call)):
        assert equal(derived(runner, call, of), derived(emulator(call), call, (do, dht)))


@pytest.mark.parametrize("lengths", [(3, 5), (70,)])
def test_on_the_cpu_a_compiled_call_has_the_same_bits(lengths: tuple[int, ...]) -> None:
    case = replace(CASE, lengths=lengths)
    do, dht = cotangents(case)
    given = arguments(case)
    wanted = leaves(given)
    compiled = torch.compile(chunk_gated_delta_rule, fullgraph=True, backend="aot_eager")
    found = pulled(compiled(**{**given, **wanted}), wanted, (do, dht))
    assert equal(found, gradients(case, do=do, dht=dht))


def test_a_traced_call_is_one_call_of_the_operator() -> None:
    given = arguments(CASE)
    traced = make_fx(lambda q: chunk_gated_delta_rule(**{**given, "q": q})[0])(given["q"])
    other = torch.randn(given["q"].shape).to(given["q"].dtype)
    assert torch.equal(traced(other), results(q=other)[0])
