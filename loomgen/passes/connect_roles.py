"""Plan -> Plan: roles hand tiles to one another through rings, and wait for the hardware that works beside them.

Before: arms that know nothing of each other. After: where one role fills a tile in a loop and another reads it in the
same loop, the two have a ring. The producer waits until the slot is empty and says what will come before it asks for
the first box; the consumer waits until the slot is full before the first read, and releases it after the last, once
that is over. The tiles that the same two roles exchange in the same loop share a ring. A group of asynchronous
products, or of boxes that leave, is waited for before something needs its end, as late as that allows; none is under
way across iterations or at the end of the arm.

No cycle of waits can stand still: per ring the consumer waits for the producer of the same iteration, the producer for
the consumer ``slots`` iterations earlier (`check_liveness`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import networkx as nx

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.plan import (
    Plan,
    PlanOp,
    RangeLoop,
    Ring,
    RingEnd,
    RingFill,
    RingRelease,
    RingWait,
    RoleArm,
    SharedBuffer,
)
from loomgen.passes.hardware_waits import wait_for_hardware
from loomgen.passes.operands import shared_refs
from loomgen.passes.role_arms import arms
from loomgen.passes.select_rules import reject
from loomgen.passes.trace import leaves
from loomgen.spec.codes import Code


def connect_roles(kernel: Plan) -> Plan:
    found = arms(kernel)
    if not found:
        return kernel
    rings = _rings(found)
    _require_rings(found, rings)
    check_liveness(rings)
    connected = tuple(replace(arm, body=wait_for_hardware(_connected(arm, rings))) for arm in found)
    return replace(kernel, body=(plan.Roles(arms=connected),))


# --------------------------------------------------------------------------- which rings there are


def _rings(found: Sequence[RoleArm]) -> dict[str, tuple[Ring, ...]]:
    """The rings by the name of the loop that turns them."""
    rings: dict[str, tuple[Ring, ...]] = {}
    for producer in found:
        for loop in _loops(producer):
            for consumer in (arm for arm in found if arm is not producer):
                ring = _ring_of(producer, consumer, loop)
                rings[loop.name] = (*rings.get(loop.name, ()), *ring)
    return rings


def _ring_of(producer: RoleArm, consumer: RoleArm, loop: RangeLoop) -> Iterator[Ring]:
    """One ring for each number of slots among the tiles that the loop hands over."""
    filled = [leaf.dst.buffer for op in loop.body for leaf in leaves(op) if isinstance(leaf, plan.BoxIn)]
    other = next((op for op in _loops(consumer) if op.name == loop.name), None)
    read = _touched(other.body) if other is not None else set[SharedBuffer]()
    shared = [buffer for buffer in filled if buffer in read]
    for slots in sorted({buffer.slots for buffer in shared}):
        buffers = tuple(buffer for buffer in shared if buffer.slots == slots)
        yield Ring(
            name="_".join(buffer.name for buffer in buffers),
            producer=producer.name,
            consumer=consumer.name,
            buffers=buffers,
            slots=slots,
            n_bytes=sum(buffer.slot_bytes for buffer in buffers),
            releases=consumer.team.warps,
        )


def _require_rings(found: Sequence[RoleArm], rings: Mapping[str, tuple[Ring, ...]]) -> None:
    """Raises SpecError for a box that no other role takes over in the loop that brings it."""
    handed = {buffer for in_loop in rings.values() for ring in in_loop for buffer in ring.buffers}
    for leaf in (leaf for arm in found for op in arm.body for leaf in leaves(op)):
        if isinstance(leaf, plan.BoxIn) and leaf.dst.buffer not in handed:
            message = (
                f"no other role reads {leaf.dst.buffer.name} in the loop, at the top of the program, that brings it"
            )
            raise reject(leaf.source.span, Code.ROLE_DEPENDENCE, message)


def _loops(arm: RoleArm) -> Iterator[RangeLoop]:
    """The loops at the top of an arm: each runs once, so that its iterations count the uses of its rings."""
    return (op for op in arm.body if isinstance(op, RangeLoop))


def _touched(ops: Sequence[PlanOp]) -> set[SharedBuffer]:
    return {ref.buffer for op in ops for leaf in leaves(op) for ref in shared_refs(leaf)}


def check_liveness(rings: dict[str, tuple[Ring, ...]]) -> None:
    """The marked graph of the roles has a token on every cycle: a role's own iterations follow one another (one token
    back), a consumer follows its producer (none), a producer follows its consumer (as many as there are slots).
    """
    graph = nx.DiGraph()
    for ring in (ring for in_loop in rings.values() for ring in in_loop):
        if ring.slots < 1:
            raise InternalError("connect_roles", f"ring {ring.name} has no slot: its roles wait for each other")
        graph.add_edge(ring.producer, ring.consumer)
    if not nx.is_directed_acyclic_graph(graph):
        cycle = " -> ".join(a for a, _ in nx.find_cycle(graph))
        raise InternalError("connect_roles", f"roles wait for each other in one iteration: {cycle}")


# --------------------------------------------------------------------------- where they are waited for


def _connected(arm: RoleArm, rings: dict[str, tuple[Ring, ...]]) -> tuple[PlanOp, ...]:
    out: list[PlanOp] = []
    for op in arm.body:
        if isinstance(op, RangeLoop):
            body = op.body
            for ring in rings.get(op.name, ()):
                body = _with_ring(body, ring, arm)
            op = replace(op, body=body)
        out.append(op)
    return tuple(out)


def _with_ring(body: tuple[PlanOp, ...], ring: Ring, arm: RoleArm) -> tuple[PlanOp, ...]:
    if arm.name not in (ring.producer, ring.consumer):
        return body
    touching = [at for at, op in enumerate(body) if _touched((op,)) & set(ring.buffers)]
    first, last = touching[0], touching[-1] + 1
    names = ", ".join(buffer.name for buffer in ring.buffers)
    if arm.name == ring.producer:
        wait = RingWait(ring=ring, end=RingEnd.EMPTY, reason=f"read {names} -> write {names}")
        return (*body[:first], wait, RingFill(ring=ring), *body[first:])
    full = RingWait(ring=ring, end=RingEnd.FULL, reason=f"write {names} -> read {names}")
    return (*body[:first], full, *body[first:last], RingRelease(ring=ring), *body[last:])
