"""One role's warps and what they do, as a part of the block."""

from __future__ import annotations

from loomgen.ir import plan
from loomgen.ir.plan import Plan, RoleArm, SharedBuffer
from loomgen.ir.schedule import Role
from loomgen.passes.trace import leaves


def role_arm(role: Role, first_warp: int, work: Plan) -> RoleArm:
    """A role that only asks for boxes does so in one thread."""
    return RoleArm(
        name=role.name,
        first_warp=first_warp,
        team=work.team,
        registers=role.registers,
        is_single=all(isinstance(leaf, plan.BoxIn | plan.MapScalar) for op in work.body for leaf in leaves(op)),
        body=work.body,
    )


def arms(kernel: Plan) -> tuple[RoleArm, ...]:
    """The arms of a plan whose warps part; none for the others."""
    return tuple(arm for op in kernel.body if isinstance(op, plan.Roles) for arm in op.arms)


def handed_over(kernel: Plan) -> frozenset[SharedBuffer]:
    """The buffers that a role's arm fills for another, or gets from one: their rings order all that touches them."""
    found = (leaf for op in kernel.body for leaf in leaves(op) if isinstance(leaf, plan.RingWait))
    return frozenset(buffer for wait in found for buffer in wait.ring.buffers)


def as_plan(arm: RoleArm) -> Plan:
    """The arm as its team sees it."""
    return Plan(team=arm.team, body=arm.body)
