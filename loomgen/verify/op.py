"""Operators against the float64 recurrence, over the shapes, dtypes and flags that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from loomgen import golden
from loomgen.errors import LoomgenError
from loomgen.ir.kernel import KernelSpec
from loomgen.ops import chunk_gated_delta_rule
from loomgen.ops.arguments import Arguments
from loomgen.ops.autograd import Runner, differentiable
from loomgen.ops.backward import backward
from loomgen.ops.forward import forward
from loomgen.ops.library import Library
from loomgen.verify.interpreted import InterpretedLibrary
from loomgen.verify.op_cases import CASES, OpCase, OpInputs, op_inputs
from loomgen.verify.op_gradients import (
    GRADIENTS,
    SUMS,
    Exact,
    OutputGradients,
    output_gradients,
    widened,
    with_gradients,
)
from loomgen.verify.stages import BOUNDS

__all__ = [
    "CASES",
    "FROM_ROUNDING",
    "OPERATORS",
    "OP_BOUND",
    "OP_BOUNDS",
    "OpCase",
    "OpInputs",
    "OpRow",
    "arguments_of",
    "exact_results",
    "golden_gates",
    "golden_op",
    "op_inputs",
    "rounding_errors",
    "run_on",
    "run_op",
    "verify_op",
]

OPERATORS = (chunk_gated_delta_rule.__name__,)
OP_BOUND = 4.5e-3
"""Relative L2 of o and of the final state."""

OP_BOUNDS = {
    "o": OP_BOUND,
    "final_state": OP_BOUND,
    **{gradient: BOUNDS[gradient] for name, gradient in GRADIENTS.items() if name not in SUMS},
    **dict.fromkeys(SUMS.values(), 5e-3),
}
"""Of the error of each result: gradients have the bounds of the stages that make them from exact inputs."""

FROM_ROUNDING = 1.1
"""What an error may be where an early one lasts, as a multiple of what the roundings in the specs make of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One result of one case: its relative L2 error against float64, inf where it is not finite; see Exact for sums."""

    case: str
    lengths: str
    heads: str
    seed: int
    tensor: str
    rel_l2: float
    bound: float
    ok: bool


def verify_op(
    name: str,
    seeds: Iterable[int],
    *,
    arch: str = "sm_100a",
    cases: Iterable[OpCase] = CASES,
    kernels: Callable[[], Sequence[KernelSpec]] | None = None,
    on_case: Callable[[str, int], None] = lambda case, seed: None,
) -> list[OpRow]:
    """A row for each result of a case and seed, from the kernels of ``arch`` in the emulator: ``o``, the final state
    and the gradients of the tensors that the case passes, raw ones as they are.

    ``kernels``, those of the specs, explain an error past its bound where an early one lasts; then the bound is
    :data:`FROM_ROUNDING`. ``on_case`` is told of each case that is done. Raises LoomgenError for an unknown operator,
    EmulatorFault.
    """
    if name not in OPERATORS:
        raise LoomgenError(f"no operator is called {name!r}; operators: {', '.join(OPERATORS)}")
    rows: list[OpRow] = []
    for seed in seeds:
        for case in cases:
            rows += _rows(case, seed, arch, kernels if case.is_lasting else None)
            on_case(case.name, seed)
    return rows


def _rows(case: OpCase, seed: int, arch: str, kernels: Callable[[], Sequence[KernelSpec]] | None) -> list[OpRow]:
    inputs = op_inputs(case, seed)
    given = output_gradients(case, inputs, seed)
    found = with_gradients(lambda leaves: run_op(case, leaves, f"emulate:{arch}"), inputs, given)
    exact = exact_results(case, inputs, given)
    errors = {tensor: exact.error(tensor, found[tensor]) for tensor in exact.values}
    bounds: Mapping[str, float] = OP_BOUNDS
    if kernels is not None and any(error > bounds[tensor] for tensor, error in errors.items()):
        explained = rounding_errors(InterpretedLibrary.of(kernels(), "rounded"), case, inputs, given)
        bounds = {tensor: max(OP_BOUNDS[tensor], FROM_ROUNDING * error) for tensor, error in explained.items()}
    return [
        OpRow(
            case=case.name,
            lengths=",".join(map(str, case.lengths)),
            heads="/".join(map(str, case.heads)),
            seed=seed,
            tensor=tensor,
            rel_l2=error,
            bound=bounds[tensor],
            ok=error <= bounds[tensor],
        )
        for tensor, error in errors.items()
    ]


def rounding_errors(
    rounded: InterpretedLibrary, case: OpCase, inputs: OpInputs, given: OutputGradients
) -> dict[str, float]:
    """The errors that the roundings written in the specs make, and nothing else; ``rounded`` is in that mode."""
    exact = exact_results(case, inputs, given)
    found = with_gradients(lambda leaves: run_on(rounded, case, leaves), inputs, given)
    return {tensor: exact.error(tensor, found[tensor]) for tensor in exact.values}


def exact_results(case: OpCase, inputs: OpInputs, given: OutputGradients) -> Exact:
    """``o``, the final state and all gradients from the float64 recurrence, with what errors are measured by."""
    return Exact.of(with_gradients(lambda leaves: golden_op(case, leaves), widened(inputs), given))


def run_op(
    case: OpCase,
    inputs: OpInputs,
    backend: str | None = None,
    *,
    cu_seqlens_cpu: Tensor | None = None,
    checked: bool = True,
) -> tuple[Tensor, Tensor]:
    """``o`` and the final state from the operator."""
    o, final = chunk_gated_delta_rule(
        inputs.q,
        inputs.k,
        inputs.v,
        inputs.g,
        inputs.beta,
        initial_state=inputs.initial_state,
        output_final_state=True,
        use_qk_l2norm_in_kernel=case.normalise,
        state_v_first=case.state_v_first,
        cu_seqlens=inputs.cu_seqlens,
        cu_seqlens_cpu=cu_seqlens_cpu,
        A_log=inputs.A_log,
        dt_bias=inputs.dt_bias,
        use_gate_in_kernel=case.raw_gates is not None,
        use_beta_sigmoid_in_kernel=case.raw_steps is not None,
        allow_neg_eigval=case.negative,
        backend=backend,
        checked=checked,
    )
    assert final is not None
    return o, final


def arguments_of(case: OpCase, inputs: OpInputs, *, cu_seqlens_cpu: Tensor | None = None) -> Arguments:
    """What the operator makes of a call that asks for the final state."""
    return Arguments(
        inputs.q, inputs.k, inputs.v, inputs.g, inputs.beta, None, inputs.initial_state, output_final_state=True,
        normalise=case.normalise, state_v_first=case.state_v_first, cu_seqlens=inputs.cu_seqlens,
        cu_seqlens_cpu=cu_seqlens_cpu, chunk_indices=None, A_log=inputs.A_log, dt_bias=inputs.dt_bias,
        sigmoid_of_beta=case.raw_steps is not None, allow_neg_eigval=case.negative,
    )  # fmt: skip


def run_on(library: Library, case: OpCase, inputs: OpInputs) -> tuple[Tensor, Tensor]:
    """``o`` and the final state from the kernels of ``library``, differentiable; nothing is checked."""
    runner = Runner(
        forward=lambda call, save: forward(call, case.lengths, library, save=save),
        backward=lambda call, _: backward(call, library),
    )
    o, final = differentiable(runner, arguments_of(case, inputs), "minimal")
    assert final is not None
    return o, final


def golden_op(case: OpCase, inputs: OpInputs) -> tuple[Tensor, Tensor]:
    """``o`` and the final state from the float64 recurrence."""
    g, beta = golden_gates(case, inputs)
    return golden.recurrent_gated_delta_rule(
        inputs.q,
        inputs.k,
        inputs.v,
        g,
        beta,
        initial_state=inputs.initial_state,
        use_qk_l2norm=case.normalise,
        state_v_first=case.state_v_first,
        cu_seqlens=inputs.cu_seqlens,
    )


def golden_gates(case: OpCase, inputs: OpInputs) -> tuple[Tensor | None, Tensor]:
    """Gates and steps of a call, in float64 where the operator makes them."""
    g, beta = inputs.g, inputs.beta
    if inputs.A_log is not None and g is not None:
        g = golden.gate_from_raw(g, inputs.A_log, inputs.dt_bias)
    if case.raw_steps is not None:
        beta = golden.step_from_raw(beta, allow_neg_eigval=case.negative)
    return g, beta
