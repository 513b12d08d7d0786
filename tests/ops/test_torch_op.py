"""The operator as torch sees it: one opaque call, on fake GPU tensors and on real ones of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from loomgen.ops import chunk_gated_delta_rule
from loomgen.ops.arguments import Arguments
from loomgen.ops.torch_op import is_watched
from loomgen.ops.workspace import Save
from loomgen.verify import OpCase
from loomgen.verify.op import op_inputs

OPERATOR: Any = torch.ops.loomgen.gdn_forward.default
BF16, F32 = torch.bfloat16, torch.float32


SMALL = OpCase(name="small", lengths=(3, 5), heads=(1, 2), head_dim=64)
ROOMY = replace(SMALL, lengths=(0, 70), slack=9)
"""Sequences that fill their chunks so little that what is saved has room for more."""
RAW = replace(SMALL, raw_gates=BF16, raw_steps=BF16, negative=True)


def operands(output_final_state: bool = True, case: OpCase = SMALL, save: Save | None = None) -> tuple[Any, ...]:
    x = op_inputs(case, 0)
    states = (x.initial_state, output_final_state, True, False)
    raw = (x.A_log, x.dt_bias, case.raw_steps is not None, case.negative)
    return x.q, x.k, x.v, x.g, x.beta, None, *states, x.cu_seqlens, None, None, *raw, False, save


def test_its_operands_are_the_arguments_in_order() -> None:
    names = [argument.name for argument in OPERATOR._schema.arguments]
    assert names == [*Arguments._fields, "checked", "save"]


@pytest.mark.parametrize(("output_final_state", "case"), [(True, SMALL), (False, SMALL), (True, RAW)])
def test_it_is_what_torch_wants_of_an_operator(output_final_state: bool, case: OpCase) -> None:
    checks = torch.library.opcheck(OPERATOR, operands(output_final_state, case))
    assert set(checks.values()) == {"SUCCESS"}


def test_it_is_what_torch_wants_of_one_that_is_differentiated() -> None:
    given = [x.requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x for x in operands(case=ROOMY)]
    checks = torch.library.opcheck(OPERATOR, (*given[:-1], "minimal"))
    assert set(checks.values()) == {"SUCCESS"}


@pytest.mark.parametrize("case", [SMALL, RAW])
def test_compiled_it_gives_the_same_bits(case: OpCase) -> None:
    given = operands(case=case)
    compiled = torch.compile(lambda *x: OPERATOR(*x), fullgraph=True, backend="aot_eager")
    for result, expected in zip(compiled(*given), OPERATOR(*given), strict=True):
        assert torch.equal(result, expected)


def test_its_errors_keep_their_types() -> None:
    q, *others = operands()
    with pytest.raises(TypeError, match=r"^q: torch.float32, expected torch.bfloat16 or torch.float16$"):
        OPERATOR(q.float(), *others)
    with pytest.raises(ValueError, match=r"^q: shape \[8, 1, 64\], expected 4 dims"):
        OPERATOR(q[0], *others)


class Model(torch.nn.Module):
    def forward(self, q: Tensor, v: Tensor, gate: Tensor, state: Tensor, offsets: Tensor, host: Tensor) -> Any:
        return chunk_gated_delta_rule(
            q, q, v, gate, gate, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=True,
            state_v_first=True, cu_seqlens=offsets, cu_seqlens_cpu=host,
        )  # fmt: skip


def on_gpu() -> tuple[Tensor, ...]:
    """What Model is given, on a GPU that need not exist."""

    def empty(*shape: int, dtype: torch.dtype = F32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="cuda")

    tokens = (empty(1, 10, 2, 128, dtype=BF16), empty(1, 10, 4, 128, dtype=BF16))
    tables = (empty(3, dtype=torch.int32), torch.empty(3, dtype=torch.int32))
    return *tokens, empty(1, 10, 4), empty(2, 4, 128, 128), *tables


def test_on_a_gpu_it_is_traced_without_a_break() -> None:
    with FakeTensorMode():
        graph = torch.export.export(Model(), on_gpu(), strict=True).graph
    calls = [node.target for node in graph.nodes if node.op == "call_function"]
    assert calls[0] is OPERATOR
    assert {getattr(target, "__name__", "") for target in calls[1:]} == {"getitem"}


def test_results_on_a_gpu_are_contiguous_and_as_promised() -> None:
    with FakeTensorMode():
        o, final = Model()(*on_gpu())
    assert (o.shape, o.dtype, o.device.type, o.is_contiguous()) == ((1, 10, 4, 128), BF16, "cuda", True)
    assert (final.shape, final.dtype, final.device.type) == ((2, 4, 128, 128), F32, "cuda")


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda given: given.__setitem__(2, None), TypeError, "beta: NoneType, expected a tensor"),
        (lambda given: given.__setitem__(3, [1.0]), TypeError, "initial_state: list, expected a tensor"),
    ],
)
def test_what_no_operand_may_be_is_said_first(
    spoil: Callable[[list[Any]], None], error: type[Exception], message: str
) -> None:
    with FakeTensorMode():
        given = list(on_gpu())
        spoil(given)
        with pytest.raises(error, match=f"^{message}"):
            Model()(*given)


def test_plain_tensors_that_nobody_watches_need_no_dispatcher() -> None:
    call = Arguments(*operands()[:-2])
    assert not is_watched(call)
    with FakeTensorMode():
        assert is_watched(call)
    kind = type("Kind", (Tensor,), {})
    assert is_watched(call._replace(q=call.q.as_subclass(kind)))
    assert is_watched(call._replace(k=call.k.as_subclass(kind)))


def test_the_emulator_is_not_for_tensors_on_a_gpu() -> None:
    with FakeTensorMode(), pytest.raises(ValueError, match=r"^q: on cuda:0, expected cpu with backend emulate$"):
        q, v, gate, *_ = on_gpu()
        chunk_gated_delta_rule(q, q, v, gate, gate, backend="emulate")
