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


def test_gradients_of_many_losses_at_once_are_refused() -> None:
    given, (do, dht) = arguments(CASE), cotangents(CASE)
    wanted = leaves(given)
    o, final = chunk_gated_delta_rule(**{**given, **wanted})
    assert final is not None
    for name, x, dx in (("o", o, do), ("final_state", final, dht)):
        with pytest.raises(NotImplementedError, match=f"^gradient of {name}: batched, expected that of one loss"):
            torch.autograd.grad(x, wanted["q"], torch.stack([dx, dx]), is_grads_batched=True, retain_graph=True)


def test_within_torch_func_a_call_that_asks_for_gradients_is_refused() -> None:
    given = arguments(CASE)
    q = given["q"].requires_grad_()
    with pytest.raises(NotImplementedError, match=r"^q: requires a gradient inside of torch\.func"):
        torch.vmap(lambda x: x * chunk_gated_delta_rule(**{**given, "q": q})[0].float().sum())(torch.ones(2))


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


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "q, k, v": (lambda x: x.float(), "q: torch.float32, expected torch.bfloat16"),
    "k": (lambda x: x[..., :32], r"k: shape \[1, 8, 1, 32\], expected"),
    "v": (lambda x: x[:, :7], r"v: shape \[1, 7, 2, 64\], expected"),
    "beta": (lambda x: x.half(), "beta: torch.float16, expected"),
    "g": (lambda x: x[:, :7], r"g: shape \[1, 7, 2\], expected"),
    "q": (lambda x: x[0], r"q: shape \[8, 1, 64\], expected 4 dims"),
    "cu_seqlens": (lambda x: x[0], r"cu_seqlens: shape \[\], expected 1 dim"),
    "initial_state": (lambda x: x[:1], "initial_state: 1 states, expected 2"),
}


@pytest.mark.parametrize("names", WRONG)
def test_a_compiler_is_told_what_is_wrong_with_an_argument(names: str) -> None:
    change, message = WRONG[names]
    given = arguments(CASE)
    given |= {name: change(given[name]) for name in names.split(", ")}
    wanted = leaves(given)
    torch.compiler.reset()  # of another case's shapes
    compiled = torch.compile(chunk_gated_delta_rule, backend="aot_eager", fullgraph=True, dynamic=False)
    with pytest.raises(Exception, match=message):
        compiled(**{**given, **wanted})


def test_an_exported_call_holds_for_any_number_of_sequences() -> None:
    class Layer(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, cu_seqlens: Tensor) -> Tensor:
            return chunk_gated_delta_rule(q, k, v, None, beta, cu_seqlens=cu_seqlens)[0]

    def operands(n: int) -> tuple[Tensor, ...]:
        x = arguments(replace(CASE, lengths=(2,) * n))
        return (*(x[name].requires_grad_() for name in ("q", "k", "v", "beta")), x["cu_seqlens"])

    tokens, n_offsets = torch.export.Dim("tokens", min=2), torch.export.Dim("n_offsets", min=3)
    dims = (*({1: tokens} for _ in range(4)), {0: n_offsets})
    exported = torch.export.export(Layer(), operands(3), dynamic_shapes=dims).module()
    assert torch.equal(exported(*operands(70)), Layer()(*operands(70)))
