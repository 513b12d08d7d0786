"""The operator's gradients: what they promise bit for bit, whatever comes in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from loomgen.ops import chunk_gated_delta_rule
from loomgen.ops.autograd import Runner, differentiable
from loomgen.ops.backward import backward
from loomgen.ops.dispatch import SCAN_VARIANTS, ScanVariant
from loomgen.ops.forward import forward
from loomgen.ops.library import emulated_library
from loomgen.verify import OpCase, relative_l2, same_bits
from loomgen.verify.op import OP_BOUNDS, exact_results, op_inputs
from loomgen.verify.op_gradients import GRADIENTS, OutputGradients
from tests.ops.call import arguments, tokens
from tests.ops.gradients import RAW, SMALL, cotangents, equal, gradients, leaves, pulled
from tests.ops.test_device import arguments as packed_arguments
from tests.ops.test_device import changed, misaligned

F16, BF16 = torch.float16, torch.bfloat16


def test_gradients_have_the_dtypes_of_their_arguments() -> None:
    given = arguments(replace(RAW, raw_steps=None, negative=False, step=BF16))
    do, dht = cotangents(SMALL)
    found = gradients(SMALL, do=do, dht=dht, **given)
    dtypes = {name: x.dtype for name, x in found.items() if x is not None}
    assert dtypes == {name: given[name].dtype for name in found}
    narrow = {name: given[name].to(BF16) for name in ("A_log", "dt_bias")}
    wide = {name: x.float() for name, x in narrow.items()}
    rounded = gradients(SMALL, do=do, dht=dht, **{**given, **narrow})
    exact = gradients(SMALL, do=do, dht=dht, **{**given, **wide})
    for name in narrow:
        x, y = rounded[name], exact[name]
        assert x is not None and y is not None and torch.equal(x, y.to(BF16)), name


def test_a_scale_is_that_of_the_forward() -> None:
    do, dht = cotangents(SMALL)
    found = gradients(SMALL, do=do, dht=dht, scale=0.5)
    given = OutputGradients(do=do.double() * 0.5 * SMALL.head_dim**0.5, dht=dht)
    exact = exact_results(SMALL, op_inputs(SMALL, 0), given).values
    for name, gradient in found.items():
        assert gradient is not None
        assert relative_l2(gradient, exact[GRADIENTS[name]]) <= OP_BOUNDS[GRADIENTS[name]], name


@pytest.mark.parametrize("case", [SMALL, RAW], ids=["gates", "raw gates"])
def test_what_slack_tokens_hold_reaches_nothing(case: OpCase) -> None:
    """NaN, in the inputs and in the gradient of o, or numbers."""
    slack = replace(case, slack=70)
    do, dht = cotangents(slack)
    n_used = sum(case.lengths)
    given = arguments(slack)
    numbers = {name: given[name].nan_to_num(1.0) for name in ("q", "k", "v", "g", "beta")}
    found = gradients(slack, do=do, dht=dht)
    assert equal(found, gradients(slack, do=do.nan_to_num(1.0), dht=dht, **numbers))
    without = gradients(case, do=do[:, :n_used], dht=dht)
    for name in numbers:
        x, y = found[name], without[name]
        assert x is not None and y is not None
        assert same_bits(x[:, :n_used].contiguous(), y) and not x[:, n_used:].any(), name


def test_the_gradient_of_an_empty_sequence_is_that_of_its_final_state() -> None:
    case = replace(SMALL, lengths=(0, 5, 0), state_v_first=True)
    do, dht = cotangents(case)
    found = gradients(case, do=do, dht=dht)["initial_state"]
    assert found is not None
    assert same_bits(found[0], dht[0]) and same_bits(found[2], dht[2]) and not torch.equal(found[1], dht[1])


def test_a_call_may_have_no_token() -> None:
    x = torch.zeros(1, 0, 2, 64, dtype=BF16)
    given = {"q": x, "k": x, "v": x, "beta": torch.zeros(1, 0, 2), "initial_state": torch.ones(1, 2, 64, 64)}
    wanted = leaves(given)
    results = chunk_gated_delta_rule(**{**wanted, "g": None, "output_final_state": True})  # type: ignore[arg-type]
    dht = torch.randn(1, 2, 64, 64, generator=torch.Generator().manual_seed(0))
    found = pulled(results, wanted, (torch.zeros_like(x), dht))
    assert all(dx is not None and dx.shape == wanted[name].shape for name, dx in found.items())
    of_state = found["initial_state"]
    assert of_state is not None and same_bits(of_state.contiguous(), dht)


def test_a_result_that_is_not_used_has_a_gradient_of_zeros() -> None:
    do, dht = cotangents(SMALL)
    assert equal(gradients(SMALL, do=None, dht=dht), gradients(SMALL, do=torch.zeros_like(do), dht=dht))
    assert equal(gradients(SMALL, do=do, dht=None), gradients(SMALL, do=do, dht=torch.zeros_like(dht)))
    assert equal(gradients(SMALL, do=do, dht=None), gradients(SMALL, do=do, dht=None, output_final_state=False))


def last_dim_apart(x: Tensor) -> Tensor:
    return torch.stack([x, x], dim=-1)[..., 0]


def heads_first(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


@pytest.mark.parametrize("view", [last_dim_apart, heads_first, misaligned])
def test_the_strides_of_what_comes_in_do_not_matter(view: Any) -> None:
    do, dht = cotangents(SMALL)
    turned = dht.mT.contiguous().mT
    assert equal(gradients(SMALL, do=view(do), dht=turned), gradients(SMALL, do=do, dht=dht))
    given = arguments(RAW)
    views = {name: view(given[name]) for name in ("q", "k", "v", "g", "beta")}
    assert equal(gradients(RAW, do=do, dht=dht, **views), gradients(RAW, do=do, dht=dht))


def test_a_gradient_of_stride_0_is_read_as_what_it_says() -> None:
    given = arguments(SMALL)
    wanted = leaves(given)
    o, _ = chunk_gated_delta_rule(**{**given, **wanted})
    o.sum().backward()  # type: ignore[no-untyped-call]
    summed = {name: x.grad for name, x in wanted.items()}
    assert equal(summed, gradients(SMALL, do=torch.ones_like(o), dht=None))


@pytest.mark.parametrize("case", [SMALL, replace(RAW, state_v_first=True, dtype=F16)], ids=["gates", "raw gates, f16"])
def test_what_is_saved_changes_no_bit(case: OpCase) -> None:
    do, dht = cotangents(case)
    minimal, states = (gradients(case, do=do, dht=dht, save=save) for save in ("minimal", "states"))
    assert equal(minimal, states)


@pytest.mark.parametrize("head_dim", [64, 128])
def test_scan_variants_agree(head_dim: int) -> None:
    case = replace(SMALL, head_dim=head_dim)
    do, dht = cotangents(case)

    def of(variant: ScanVariant) -> dict[str, Tensor | None]:
        library = emulated_library()
        runner = Runner(
            forward=lambda call, save: forward(call, case.lengths, library, save=save, variant=variant),
            backward=lambda call, _: backward(call, library, variant=variant),
        )
        call = packed_arguments(case)
        wanted = leaves(call._asdict())
        return pulled(differentiable(runner, changed(call, **wanted), "minimal"), wanted, (do, dht))

    first, *others = map(of, SCAN_VARIANTS)
    assert all(equal(first, other) for other in others)


def test_every_target_gives_the_same_bits() -> None:
    do, dht = cotangents(RAW)
    hopper, blackwell = (gradients(RAW, do=do, dht=dht, backend=f"emulate:{arch}") for arch in ("sm_90a", "sm_100a"))
    assert equal(hopper, blackwell)


def test_a_sequence_alone_equals_itself_in_a_pack() -> None:
    case = replace(SMALL, lengths=(15, 65, 0, 9))
    do, dht = cotangents(case)
    given, packed = arguments(case), gradients(case, do=do, dht=dht)
    begin = 0
    for n, length in enumerate(case.lengths):
        end = begin + length
        own = {**given, **tokens(given, begin, end), "initial_state": given["initial_state"][n : n + 1]}
        alone = gradients(case, do=do[:, begin:end], dht=dht[n : n + 1], **{**own, "cu_seqlens": None})
        for name in ("q", "k", "v", "g", "beta"):
            x, y = packed[name], alone[name]
            assert x is not None and y is not None and same_bits(x[:, begin:end].contiguous(), y), (n, name)
        x, y = packed["initial_state"], alone["initial_state"]
        assert x is not None and y is not None and same_bits(x[n].contiguous(), y[0].contiguous()), n
        begin = end


def test_a_sequence_that_is_resumed_has_the_gradients_of_one_pass() -> None:
    case = replace(SMALL, lengths=(97,))
    do, dht = cotangents(case)
    given = {**arguments(case), "cu_seqlens": None}
    wanted = leaves(given)
    first, second = ({**given, **wanted, **tokens(wanted, *part)} for part in ((0, 64), (64, 97)))
    o, state = chunk_gated_delta_rule(**first)
    o_after, final = chunk_gated_delta_rule(**{**second, "initial_state": state})
    resumed = pulled((torch.cat([o, o_after], dim=1), final), wanted, (do, dht))
    assert equal(resumed, gradients(case, do=do, dht=dht))


def test_the_two_layouts_of_states_have_the_same_gradients() -> None:
    do, dht = cotangents(SMALL)
    state = arguments(SMALL)["initial_state"]
    expected = gradients(SMALL, do=do, dht=dht)
    turned = gradients(SMALL, do=do, dht=dht.mT, initial_state=state.mT, state_v_first=True)
    of_state = turned.pop("initial_state")
    assert of_state is not None
    assert equal({**turned, "initial_state": of_state.mT}, expected)


def test_no_input_is_written() -> None:
    given = arguments(RAW)
    before = {name: x.clone() for name, x in given.items() if isinstance(x, Tensor)}
    do, dht = cotangents(RAW)
    kept = do.clone(), dht.clone()
    gradients(RAW, do=do, dht=dht)
    assert all(torch.equal(given[name], x) for name, x in before.items())
    assert torch.equal(do, kept[0]) and torch.equal(dht, kept[1])


def test_a_gate_that_is_no_number_has_no_gradient_that_is_one() -> None:
    """Nor has any gate of its chunk before it; a zero would hide it."""
    do, dht = cotangents(SMALL)
    g = arguments(SMALL)["g"].clone()
    g[0, 1, 0] = float("nan")
    found = gradients(SMALL, do=do, dht=dht, g=g)["g"]
    assert found is not None and found[0, :2, 0].isnan().all()
