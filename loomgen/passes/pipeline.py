"""From a kernel's spec to its device code: the passes in order, each followed by its verifier.

The file of each pass says what holds before and after it; the verifiers say it again in code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from loomgen.errors import InternalError
from loomgen.ir.device import CStmt, Function, Parameter
from loomgen.ir.kernel import Argument, ArgumentKind, KernelSpec, Launch
from loomgen.ir.order import Order
from loomgen.ir.plan import Plan, SharedLayout
from loomgen.ir.tile import Program
from loomgen.passes.allocate import allocate
from loomgen.passes.arguments import needed_arguments, possible_arguments, tensor_maps
from loomgen.passes.connect_roles import connect_roles
from loomgen.passes.determinism import check_determinism
from loomgen.passes.drop_unused import drop_unused
from loomgen.passes.fuse_maps import fuse_maps
from loomgen.passes.group_copies import group_copies
from loomgen.passes.lower.cxx_words import code_name
from loomgen.passes.lower.kernel import lower_body
from loomgen.passes.lower.names import c_type
from loomgen.passes.lower_inverse import lower_inverse
from loomgen.passes.prune import prune
from loomgen.passes.resources import check_resources
from loomgen.passes.select import select, sum_orders
from loomgen.passes.synchronise import synchronise
from loomgen.passes.verify_device import verify_device
from loomgen.passes.verify_plan import verify_layout, verify_plan
from loomgen.passes.verify_roles import verify_roles
from loomgen.passes.verify_sync import verify_sync
from loomgen.passes.verify_tile import verify_tile
from loomgen.target import Target

SPEC = "spec"
"""What stands in the place of a pass's name before the first of them."""

# --------------------------------------------------------------------------- what passes hand on


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiled:
    """A kernel as Tile IR."""

    kernel: KernelSpec
    target: Target
    program: Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Tiled):
    """A kernel as Plan IR, beside the program that it carries out and the order of its sums."""

    plan: Plan
    orders: dict[str, Order]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut(Planned):
    """A plan whose shared memory is laid out."""

    layout: SharedLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class InCode(LaidOut):
    """A kernel as Device IR."""

    device: Function
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredKernel:
    """A kernel for one target, as far as the compiler takes it."""

    kernel: KernelSpec
    program: Program
    plan: Plan
    layout: SharedLayout
    device: Function
    orders: dict[str, Order]
    launch: Launch
    arguments: tuple[Argument, ...]


# --------------------------------------------------------------------------- the passes

Before = TypeVar("Before", bound=Tiled)
After = TypeVar("After", bound=Tiled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass(Generic[Before, After]):
    """One step. ``verify`` takes what it made and the pass's name; it raises InternalError, or SpecError where a spec
    asks for more than there is."""

    name: str
    run: Callable[[Before], After]
    verify: Callable[[After, str], None]


def _drop_unused(state: Tiled) -> Tiled:
    return replace(state, program=drop_unused(state.program))


def _lower_inverse(state: Tiled) -> Tiled:
    return replace(state, program=lower_inverse(state.program))


def _fuse_maps(state: Tiled) -> Tiled:
    return replace(state, program=fuse_maps(state.program))


def _select(state: Tiled) -> Planned:
    plan = select(state.kernel, state.program)
    orders = sum_orders(state.kernel, state.program, plan)
    return Planned(kernel=state.kernel, target=state.target, program=state.program, plan=plan, orders=orders)


def _group_copies(state: Planned) -> Planned:
    return replace(state, plan=group_copies(state.plan))


def _connect_roles(state: Planned) -> Planned:
    return replace(state, plan=connect_roles(state.plan))


def _allocate(state: Planned) -> LaidOut:
    return LaidOut(
        kernel=state.kernel,
        target=state.target,
        program=state.program,
        plan=state.plan,
        orders=state.orders,
        layout=allocate(state.plan),
    )


def _synchronise(state: LaidOut) -> LaidOut:
    return replace(state, plan=synchronise(state.plan, state.layout))


def _lower(state: LaidOut) -> InCode:
    possible = (*possible_arguments(state.program), *tensor_maps(state.plan))
    body = lower_body(state.program, state.plan, state.layout)
    return InCode(
        kernel=state.kernel,
        target=state.target,
        program=state.program,
        plan=state.plan,
        orders=state.orders,
        layout=state.layout,
        device=_function(state, possible, body),
        arguments=possible,
    )


def _prune(state: InCode) -> InCode:
    body = prune(state.device.body)
    arguments = needed_arguments(state.arguments, body)
    return replace(state, device=_function(state, arguments, body), arguments=arguments)


def _verify_tile(state: Tiled, name: str) -> None:
    verify_tile(state.program, name)


def _verify_selected(state: Planned, name: str) -> None:
    verify_plan(state.plan, name)
    check_determinism(state.program, state.plan, state.orders)


def _verify_grouped(state: Planned, name: str) -> None:
    verify_plan(state.plan, name)


def _verify_allocated(state: LaidOut, name: str) -> None:
    verify_layout(state.plan, state.layout, name)
    check_resources(state.kernel, state.target, state.plan.team, state.layout)


def _verify_synchronised(state: LaidOut, name: str) -> None:
    verify_plan(state.plan, name)
    verify_sync(state.plan, state.layout, name)
    verify_roles(state.plan, name)
    check_determinism(state.program, state.plan, state.orders)


def _verify_device(state: InCode, name: str) -> None:
    verify_device(state.device.parameters, state.device.body, name)


PASSES: tuple[Pass[Any, Any], ...] = (
    Pass(name="drop_unused", run=_drop_unused, verify=_verify_tile),
    Pass(name="lower_inverse", run=_lower_inverse, verify=_verify_tile),
    Pass(name="fuse_maps", run=_fuse_maps, verify=_verify_tile),
    Pass(name="select", run=_select, verify=_verify_selected),
    Pass(name="group_copies", run=_group_copies, verify=_verify_grouped),
    Pass(name="connect_roles", run=_connect_roles, verify=_verify_grouped),
    Pass(name="allocate", run=_allocate, verify=_verify_allocated),
    Pass(name="synchronise", run=_synchronise, verify=_verify_synchronised),
    Pass(name="lower", run=_lower, verify=_verify_device),
    Pass(name="prune", run=_prune, verify=_verify_device),
)
"""Tile IR to Tile IR, to Plan IR with ``select``, to Device IR with ``lower``. What a pass makes is what the next
takes.
"""


def steps(kernel: KernelSpec, target: Target) -> Iterator[tuple[str, Tiled]]:
    """The kernel as its spec has it, then after each pass, by the passes' names; each verified.

    Raises SpecError where the spec asks for what cannot be done, InternalError where a pass went wrong.
    """
    state = Tiled(kernel=kernel, target=target, program=kernel.program)
    verify_tile(state.program, SPEC)
    yield SPEC, state
    for step in PASSES:
        state = step.run(state)
        step.verify(state, step.name)
        yield step.name, state


def lower(kernel: KernelSpec, target: Target) -> LoweredKernel:
    """All passes. Raises SpecError and InternalError as :func:`steps` does."""
    state: Tiled = dict(steps(kernel, target))[PASSES[-1].name]
    if not isinstance(state, InCode):
        raise InternalError("pipeline", "the last pass made no device code")
    return LoweredKernel(
        kernel=kernel,
        program=state.program,
        plan=state.plan,
        layout=state.layout,
        device=state.device,
        orders=state.orders,
        launch=Launch(
            threads=state.plan.team.threads,
            min_blocks=_min_blocks(kernel),
            grid=tuple(axis.count for axis in state.program.grid),
            shared_bytes=state.layout.n_bytes,
        ),
        arguments=state.arguments,
    )


def _min_blocks(kernel: KernelSpec) -> int:
    return kernel.schedule.min_blocks or 1


def _function(state: LaidOut, arguments: tuple[Argument, ...], body: tuple[CStmt, ...]) -> Function:
    return Function(
        name=str(state.kernel.name),
        threads=state.plan.team.threads,
        min_blocks=_min_blocks(state.kernel),
        parameters=tuple(_parameter(argument) for argument in arguments),
        body=body,
    )


def _parameter(argument: Argument) -> Parameter:
    base = c_type(argument.dtype)
    if argument.kind is ArgumentKind.TENSOR_MAP:
        return Parameter(type="LOOM_TENSOR_MAP", name=argument.name)
    if argument.kind in (ArgumentKind.TENSOR, ArgumentKind.TABLE):
        const = "const " if argument.access == "in" else ""
        return Parameter(type=f"{const}{base}* __restrict__", name=code_name(argument.name))
    return Parameter(type=base, name=code_name(argument.name))
