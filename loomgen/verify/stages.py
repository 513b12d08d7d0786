"""The stages in the order in which one feeds the next, each tensor compared with its float64 value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor

from loomgen.ir.kernel import KernelSpec
from loomgen.passes.pipeline import lower
from loomgen.target import target_named
from loomgen.verify.arbitrary import BOUND, Case, Parameter, make_case
from loomgen.verify.backends import Backend, StageRunner, emulator, interpreter, target_of
from loomgen.verify.compare import relative_l2, same_bits
from loomgen.verify.problem import Formats, Inputs, Problem, make_problem

ORDER: dict[str, tuple[str, ...]] = {
    "meta": ("bounds", "seq_chunks", "starts", "lengths"),
    "gates": ("made_gate", "made_step"),
    "prep": ("qn", "kn", "G", "beta", "q_rstd", "k_rstd"),
    "wy": ("A",),
    "wy_recompute": ("u", "w"),
    "fwd_h": ("h", "v_new", "ht"),
    "fwd_o": ("o",),
    "slack": ("tail",),
    "gate_grads": ("da", "db", "dA_log_parts", "ddt_bias_parts"),
    "gate_sums": ("dA_log", "ddt_bias"),
    "dv_local": ("dn",),
    "dhu": ("dh", "dx", "dh0"),
    "chunk_grads": ("dq", "dk", "dv", "dg", "dbeta"),
}
"""Stages of the forward pass, `wy_recompute`, and those of the backward; what they write, which the next ones read by
the same name. The gates' gradients come first: they are made of random ``dg`` and ``dbeta``, without the rounding that
went into those of `chunk_grads`."""

BOUNDS = {
    "bounds": 0.0,
    "seq_chunks": 0.0,
    "starts": 0.0,
    "lengths": 0.0,
    "made_gate": 5e-7,
    "made_step": 3e-7,
    "qn": 2e-3,
    "kn": 2e-3,
    "G": 1e-6,
    "beta": 1e-7,
    "A": 4e-3,
    "u": 5e-3,
    "w": 5e-3,
    "h": 5e-3,
    "v_new": 5e-3,
    "ht": 4e-3,
    "o": 5e-3,
    "tail": 0.0,
    "da": 4e-3,  # a few tokens of strong decay have most of it: their own rounding, 2^-8 at most, counts
    "db": 2e-3,
    "dA_log_parts": 1e-6,
    "ddt_bias_parts": 1e-6,
    "dA_log": 1e-6,
    "ddt_bias": 1e-6,
    "q_rstd": 1e-6,
    "k_rstd": 1e-6,
    "dn": 5e-3,
    "dh": 5e-3,
    "dx": 5e-3,
    "dh0": 5e-3,
    "dq": 5e-3,
    "dk": 5.5e-3,
    "dv": 5e-3,
    "dg": 1e-2,
    "dbeta": 1e-2,
}
"""Relative L2 against float64 from exact inputs: what bf16 operands and storage, or fp32 ones, allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRow:
    """One tensor of one kernel.

    ``exact_by`` says what it is compared with: the golden, or for a stage that has none its own spec in float64, which
    shows what roundings do and not whether the spec is right. ``rel_l2``: ||x - exact|| / ||exact||, inf where x is not
    finite. ``bits``: equal to the interpreter's ordered mode, None where that was not asked for.
    """

    stage: str
    kernel: str
    tensor: str
    seed: int
    exact_by: Literal["golden", "its spec"]
    rel_l2: float
    bound: float
    bits: bool | None
    ok: bool


def verify_stages(
    kernels: Sequence[KernelSpec],
    backend: Backend,
    seqlens: Sequence[int],
    heads: tuple[int, int],
    seeds: Iterable[int],
    *,
    root: Path,
    arch: str = "sm_100a",
    on_kernel: Callable[[str, int], None] = lambda kernel, seed: None,
) -> list[VerifyRow]:
    """Runs the kernels on random inputs, later stages on the results of earlier ones; a row an output and seed.

    Stages of the chain that are not among ``kernels`` are replaced by their rounded float64 results; a stage outside it
    is compared with its own meaning in float64. With the emulator, every output is also compared bit for bit with the
    interpreter's ordered mode. ``on_kernel`` is told of each kernel and seed that are done. Raises EmulatorFault.
    """
    lowered = [lower(kernel, target_named(target_of(kernel, arch))) for kernel in kernels]
    run = interpreter(lowered, "rounded") if backend == "interp" else emulator(kernels, arch, root)
    check = interpreter(lowered, "ordered") if backend == "emulate" else None
    chain = _Chain(run=run, check=check, exact=interpreter(lowered, "float64"), on_kernel=on_kernel)
    rows: list[VerifyRow] = []
    for formats, group in _by_formats(kernel for kernel in kernels if kernel.name.stage in ORDER).items():
        for seed in seeds:
            rows += chain.rows(group, make_problem(seqlens, heads, seed, formats=formats), seed)
    for kernel in lowered:
        if kernel.kernel.name.stage in ORDER:
            continue
        parameters, dims = [Parameter.of(argument) for argument in kernel.arguments], dict(kernel.program.dims)
        for seed in seeds:
            rows += chain.rows_alone(kernel.kernel, make_case(parameters, dims, seqlens, heads, seed), seed)
    return rows


def _by_formats(kernels: Iterable[KernelSpec]) -> dict[Formats, list[KernelSpec]]:
    groups: dict[Formats, list[KernelSpec]] = {}
    for kernel in kernels:
        groups.setdefault(_formats(kernel), []).append(kernel)
    return groups


def _formats(kernel: KernelSpec) -> Formats:
    dtypes = {tensor.name: tensor.dtype.value for tensor in kernel.program.tensors}
    return Formats.of(str(kernel.name), dict(kernel.program.dims), dtypes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    """What runs kernels, what their bits are compared with, if anything, their meaning, and who is told."""

    run: StageRunner
    check: StageRunner | None
    exact: StageRunner
    on_kernel: Callable[[str, int], None]

    def rows(self, kernels: Sequence[KernelSpec], problem: Problem, seed: int) -> list[VerifyRow]:
        """The stages in order; variants of one stage read the same inputs, the first one feeds what follows."""
        rows: list[VerifyRow] = []
        known: Inputs = problem.given
        rounded = problem.rounded()
        for stage, tensors in ORDER.items():
            found: list[dict[str, Tensor]] = []
            for kernel in (kernel for kernel in kernels if kernel.name.stage == stage):
                found.append(_results(self.run, kernel, problem, known, seed))
                wanted = None if self.check is None else _results(self.check, kernel, problem, known, seed)
                rows += _compared(kernel, found[-1], wanted, problem.expected, seed)
                self.on_kernel(str(kernel.name), seed)
            known = {**known, **(found[0] if found else {name: rounded[name] for name in tensors})}
        return rows

    def rows_alone(self, kernel: KernelSpec, case: Case, seed: int) -> list[VerifyRow]:
        """A kernel of no chain, against its meaning."""
        name = str(kernel.name)
        results, exact = case.fresh(), {name: tensor.double() for name, tensor in case.fresh().items()}
        wanted = None if self.check is None else case.fresh()
        self.run(name, {**case.given, **results}, seed)
        self.exact(name, {**case.given, **exact}, seed)
        if self.check is not None and wanted is not None:
            self.check(name, {**case.given, **wanted}, seed)
        rows = _compared(kernel, results, wanted, exact, seed)
        self.on_kernel(name, seed)
        return rows


def _results(run: StageRunner, kernel: KernelSpec, problem: Problem, known: Inputs, seed: int) -> dict[str, Tensor]:
    results = problem.fresh(ORDER[kernel.name.stage])
    run(str(kernel.name), {**known, **results}, seed)
    return results


def _compared(
    kernel: KernelSpec,
    results: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor] | None,
    exact: Mapping[str, Tensor],
    seed: int,
) -> list[VerifyRow]:
    """A row a tensor; elements that are NaN in the exact result are those that the kernel leaves alone."""
    has_golden = kernel.name.stage in ORDER
    bounds = BOUNDS if has_golden else dict.fromkeys(results, BOUND)
    rows: list[VerifyRow] = []
    for name, tensor in results.items():
        bits = None if wanted is None else same_bits(tensor, wanted[name])
        is_written = ~exact[name].isnan()
        error = relative_l2(tensor[is_written], exact[name][is_written])
        row = VerifyRow(
            stage=kernel.name.stage,
            kernel=str(kernel.name),
            tensor=name,
            seed=seed,
            exact_by="golden" if has_golden else "its spec",
            rel_l2=error,
            bound=bounds[name],
            bits=bits,
            ok=error <= bounds[name] and bits is not False,
        )
        rows.append(row)
    return rows
