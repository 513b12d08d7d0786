"""The operator among others that autograd records: what it launches, keeps, refuses, and shows to torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from loomgen.ops import chunk_gated_delta_rule
from loomgen.ops.arguments import Arguments
from loomgen.ops.autograd import DIFFERENTIABLE
from loomgen.ops.backward import BackwardCall
from loomgen.ops.workspace import Save
from loomgen.verify import OpCase
from tests.ops.call import arguments
from tests.ops.gradients import RAW, SMALL, Gradients, cotangents, equal, gradients, leaves, pulled
from tests.ops.recorder import Recorder
from tests.ops.test_torch_op import operands

FORWARD: Any = torch.ops.loomgen.gdn_forward.default
BACKWARD: Any = torch.ops.loomgen.gdn_backward.default
FEW = replace(SMALL, lengths=(3, 5))
FEW_RAW = replace(RAW, lengths=(3, 5))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    library = Recorder()
    monkeypatch.setattr("loomgen.ops.chunk.library_of", lambda backend: library)
    return library


def launched(recorder: Recorder) -> list[str]:
    return [kernel.stage for kernel, _ in recorder.launched]


def pulled_for(names: tuple[str, ...], case: OpCase = FEW, **changes: Any) -> Gradients:
    """The gradients where only arguments of these ``names`` require them; others are told apart by None."""
    given = {**arguments(case), **changes}
    wanted = {name: x for name, x in leaves(given).items() if name in names}
    return pulled(chunk_gated_delta_rule(**{**given, **wanted}), wanted, cotangents(case))


BACKWARD_STAGES = ["dv_local", "dhu", "chunk_grads"]
OF_RAW = ["gate_grads", "gate_sums"]
RUNS: list[tuple[OpCase, Save, tuple[str, ...], list[str]]] = [
    (FEW, "minimal", DIFFERENTIABLE, ["fwd_h", *BACKWARD_STAGES]),
    (FEW, "states", DIFFERENTIABLE, BACKWARD_STAGES),
    (FEW, "minimal", ("v",), ["fwd_h", *BACKWARD_STAGES]),
    (FEW, "minimal", ("initial_state",), ["dv_local", "dhu"]),
    (FEW_RAW, "minimal", ("initial_state",), ["dv_local", "dhu"]),
    (FEW_RAW, "states", ("A_log",), [*BACKWARD_STAGES, *OF_RAW]),
    (replace(FEW_RAW, raw_gates=None), "states", DIFFERENTIABLE, [*BACKWARD_STAGES, "gate_grads"]),
]


@pytest.mark.parametrize(("case", "save", "names", "stages"), RUNS)
def test_a_backward_launches_no_more_than_it_must(
    case: OpCase, save: Save, names: tuple[str, ...], stages: list[str], recorder: Recorder
) -> None:
    pulled_for(names, case, save=save)
    forward = ["gates", "prep", "wy", "fwd_h", "fwd_o"] if "gates" in launched(recorder) else launched(recorder)[:4]
    assert launched(recorder) == [*forward, *stages]
    assert recorder.prepared == [kernel.name for kernel, _ in recorder.launched]


def test_what_nothing_is_asked_of_is_not_written(recorder: Recorder) -> None:
    pulled_for(("k",))
    pulled_for(("k", "initial_state"))
    without, with_state = ([values for kernel, values in recorder.launched if kernel.stage == "dhu"][i] for i in (0, 1))
    assert without["dh0"] is None and with_state["dh0"] is not None
    (again, *_) = (values for kernel, values in recorder.launched[4:] if kernel.stage == "fwd_h")
    assert again["ht"] is None


def test_no_backward_runs_where_nothing_comes_in(recorder: Recorder) -> None:
    given = arguments(FEW)
    wanted = leaves(given)
    o, final = chunk_gated_delta_rule(**{**given, **wanted})
    assert final is not None and o.requires_grad and final.requires_grad
    n_launched = len(recorder.launched)
    (dq,) = torch.autograd.grad(o.detach() + torch.zeros(1, requires_grad=True), wanted["q"], o, allow_unused=True)
    assert dq is None and len(recorder.launched) == n_launched


@pytest.mark.parametrize("is_wanted", [True, False])
def test_nothing_is_kept_where_no_gradient_is_wanted(is_wanted: bool, recorder: Recorder) -> None:
    given = arguments(FEW)
    with torch.set_grad_enabled(is_wanted):
        o, final = chunk_gated_delta_rule(**{**given, **leaves(given)})
    assert final is not None and o.requires_grad == final.requires_grad == is_wanted
    prep = recorder.launched[0][1]
    assert (prep["q_rstd"] is not None) == (prep["k_rstd"] is not None) == is_wanted


@pytest.mark.parametrize("names", [("v",), ("g", "initial_state"), ("A_log",), ("dt_bias", "beta"), ("initial_state",)])
def test_some_of_the_gradients_have_the_bits_that_they_have_among_all(names: tuple[str, ...]) -> None:
    do, dht = cotangents(FEW_RAW)
    every = gradients(FEW_RAW, do=do, dht=dht)
    assert equal(pulled_for(names, FEW_RAW), {name: every[name] for name in DIFFERENTIABLE if name in names})


@pytest.mark.parametrize("save", ["minimal", "states"])
def test_a_graph_that_is_retained_gives_the_same_bits_again(save: Save) -> None:
    given = arguments(FEW_RAW)
    wanted = leaves(given)
    results = chunk_gated_delta_rule(**{**given, **wanted, "save": save})

    def pull() -> tuple[Tensor, ...]:
        return torch.autograd.grad(results, tuple(wanted.values()), cotangents(FEW_RAW), retain_graph=True)  # type: ignore[arg-type]

    first, again = (dict(zip(wanted, pull(), strict=True)) for _ in range(2))
    assert equal({**first}, {**again})


@pytest.mark.parametrize("alone", [None, "q", "k", "v", "g", "beta", "initial_state"])
@pytest.mark.parametrize("power", [1, 2])
def test_a_second_derivative_is_refused(power: int, alone: str | None) -> None:
    """Where the loss is linear in the results, too, and nothing that flows back requires a gradient itself."""
    given = arguments(FEW)
    wanted = leaves(given) if alone is None else {alone: leaves(given)[alone]}
    o, _ = chunk_gated_delta_rule(**{**given, **wanted})
    first, *_ = torch.autograd.grad(o.float().pow(power).sum(), tuple(wanted.values()), create_graph=True)
    assert first.requires_grad
    with pytest.raises(NotImplementedError, match="chunk_gated_delta_rule: gradients of its gradients are not supp"):
        (o.float().sum() + first.float().square().sum()).backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", ["v", "initial_state", "g", "A_log", "cu_seqlens"])
def test_a_tensor_that_is_written_before_the_backward_is_noticed(name: str) -> None:
    given = arguments(FEW_RAW)
    o, _ = chunk_gated_delta_rule(**{**given, "q": given["q"].requires_grad_()})
    given[name].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        o.sum().backward()  # type: ignore[no-untyped-call]


def test_a_tensor_that_the_backward_does_not_read_may_be_written() -> None:
    do, dht = cotangents(FEW)
    given = arguments(FEW)
    wanted = leaves(given)
    results = chunk_gated_delta_rule(**{**given, **wanted})
    with torch.no_grad():
        for name in ("q", "k", "g", "beta"):
            wanted[name].zero_()
    assert equal(pulled(results, wanted, (do, dht)), gradients(FEW, do=do, dht=dht))


def test_what_is_a_parameter_is_differentiated_too() -> None:
    do, dht = cotangents(FEW_RAW)
    given = arguments(FEW_RAW)
    wanted: dict[str, Tensor] = {name: torch.nn.Parameter(x) for name, x in leaves(given).items()}
    found = pulled(chunk_gated_delta_rule(**{**given, **wanted}), wanted, (do, dht))
    assert equal(found, gradients(FEW_RAW, do=do, dht=dht))


def dispatched(case: OpCase, save: Save | None = "minimal", *, requires_grad: bool = True) -> tuple[Any, ...]:
    """Operands of ``loomgen::gdn_forward``, those that can be differentiated in as leaves."""
    given = list(operands(True, case, save))
    for name in DIFFERENTIABLE if requires_grad else ():
        i = Arguments._fields.index(name)
        given[i] = None if given[i] is None else given[i].detach().requires_grad_()
    return tuple(given)


@pytest.mark.parametrize("save", ["minimal", "states"])
@pytest.mark.parametrize("case", [FEW, replace(FEW_RAW, state_v_first=True)], ids=["gates", "raw gates"])
def test_the_dispatched_operator_gives_the_same_bits(case: OpCase, save: Save) -> None:
    do, dht = cotangents(case)
    given = dispatched(case, save)
    wanted = {name: x for name in DIFFERENTIABLE if (x := given[Arguments._fields.index(name)]) is not None}
    o, final, _ = FORWARD(*given)
    assert equal(pulled((o, final), wanted, (do, dht)), gradients(replace(case, state_v_first=False), do=do, dht=dht))


def test_the_dispatched_operator_refuses_what_it_did_not_save_and_second_derivatives() -> None:
    given = dispatched(FEW, None)
    o, _ = FORWARD(*given)
    with pytest.raises(RuntimeError, match="save is None, expected minimal or states where gradients are asked for"):
        o.sum().backward()
    given = dispatched(FEW)
    o, *_ = FORWARD(*given)
    for loss in (o.float().sum(), o.float().square().sum()):
        (dq,) = torch.autograd.grad(loss, given[0], create_graph=True)
        with pytest.raises(NotImplementedError, match="chunk_gated_delta_rule: gradients of its gradients are not"):
            dq.float().sum().backward()


def test_the_dispatched_backward_refuses_its_derivative() -> None:
    given = dispatched(FEW)
    call = Arguments(*given[:-2])
    o, *_, saved = FORWARD(*given)
    flags = (call.normalise, call.state_v_first, call.allow_neg_eigval, "minimal", True, False)
    dq, *_ = torch.ops.loomgen.gdn_backward.default(
        torch.ones_like(o), None, call.v, None, None, 0.125, call.initial_state, call.cu_seqlens, None, None, None,
        saved.detach(), call.q.shape[2], *flags,
    )  # fmt: skip
    with pytest.raises(NotImplementedError, match="gdn_backward: has no derivative: gradients of gradients"):
        dq.float().sum().backward()


@pytest.fixture
def filled_memory() -> Iterator[None]:
    """New memory holds one value, so that what is saved can be compared whole, with what no kernel writes of it."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("filled_memory")
@pytest.mark.parametrize("save", ["minimal", "states"])
@pytest.mark.parametrize("case", [FEW, FEW_RAW, replace(FEW, packed=False, lengths=(5, 5))])
def test_the_forward_is_what_torch_wants_of_an_operator(case: OpCase, save: Save) -> None:
    checks = torch.library.opcheck(FORWARD, dispatched(case, save, requires_grad=False))
    assert set(checks.values()) == {"SUCCESS"}


def backward_operands(case: OpCase, save: Save, of_state: bool = True) -> BackwardCall:
    """As the rule of ``gdn_forward`` passes them."""
    call = Arguments(*operands(True, case, save)[:-2])
    do, dht = cotangents(case)
    return BackwardCall(
        do=do, dht=dht, v=call.v, g=None if call.A_log is None else call.g,
        beta=call.beta if call.sigmoid_of_beta else None, scale=0.125, initial_state=call.initial_state,
        cu_seqlens=call.cu_seqlens, cu_seqlens_cpu=None, A_log=call.A_log, dt_bias=call.dt_bias,
        saved=FORWARD(*call, False, save)[-1], key_heads=call.q.shape[2], normalise=True, state_v_first=False,
        allow_neg_eigval=call.allow_neg_eigval, save=save, of_inputs=True, of_state=of_state,
    )  # fmt: skip


@pytest.mark.parametrize("case", [FEW, FEW_RAW])
@pytest.mark.parametrize("save", ["minimal", "states"])
def test_the_backward_is_what_torch_wants_of_an_operator(case: OpCase, save: Save) -> None:
    checks = torch.library.opcheck(BACKWARD, backward_operands(case, save))
    assert set(checks.values()) == {"SUCCESS"}


def test_the_operands_of_the_backward_are_those_of_its_call_in_order() -> None:
    assert [argument.name for argument in BACKWARD._schema.arguments] == list(BackwardCall._fields)


@pytest.mark.parametrize("case", [FEW, FEW_RAW, replace(FEW, packed=False, lengths=(5, 5))])
def test_compiled_gradients_have_the_same_bits(case: OpCase) -> None:
    def loss(*given: Any) -> Tensor:
        o, final, _ = FORWARD(*given)
        return o.float().square().sum() + final.square().sum()  # type: ignore[no-any-return]

    def found(of: Callable[..., Tensor]) -> Gradients:
        given = dispatched(case)
        of(*given).backward()  # type: ignore[no-untyped-call]
        return {name: x.grad for name in DIFFERENTIABLE if (x := given[Arguments._fields.index(name)]) is not None}

    assert equal(found(torch.compile(loss, fullgraph=True, backend="aot_eager")), found(loss))
