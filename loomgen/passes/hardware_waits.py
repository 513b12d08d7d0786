"""Waits for asynchronous products and boxes, and fences for what they read, in one role's arm.

Both come in groups that end in the order in which they began. What needs the end of a group - its sum in registers, the
release of a slot that it reads, a write to what it reads - waits for it and lets younger groups go on. Loops are left,
and their iterations end, with nothing under way.

The hardware reaches shared memory by a way of its own: the threads that write what it will read fence their writes at
once, before the barrier that makes them known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from loomgen.ir import plan
from loomgen.ir.plan import BoxOut, BoxWait, Leaf, MmaWait, PlanOp, ProxyFence, RingRelease, SharedBuffer, WarpgroupMma
from loomgen.passes.operands import operands, shared_refs
from loomgen.passes.select_rules import reject
from loomgen.passes.trace import leaves
from loomgen.spec.codes import Code


def wait_for_hardware(ops: tuple[PlanOp, ...]) -> tuple[PlanOp, ...]:
    """The arm with its waits and fences."""
    read = frozenset(buffer for op in ops for leaf in leaves(op) for buffer in _read_by_hardware(leaf))
    return _waiting(ops, read)


def _waiting(ops: tuple[PlanOp, ...], read: frozenset[SharedBuffer]) -> tuple[PlanOp, ...]:
    block = _Block(read_by_hardware=read)
    for op in ops:
        block.operation(op)
    block.finish()
    return tuple(block.out)


@dataclass(slots=True)
class _Block:
    """The operations so far, and the groups under way, oldest first."""

    read_by_hardware: frozenset[SharedBuffer]
    out: list[PlanOp] = field(default_factory=list)
    products: list[WarpgroupMma] = field(default_factory=list)
    boxes: list[BoxOut] = field(default_factory=list)

    def operation(self, op: PlanOp) -> None:
        match op:
            case plan.ChunkLoop() | plan.RangeLoop():
                self.finish()
                self.out.append(replace(op, body=_waiting(op.body, self.read_by_hardware)))
            case plan.Conditional():
                self.finish()
                then, orelse = (_waiting(body, self.read_by_hardware) for body in (op.then, op.orelse))
                self.out.append(replace(op, then=then, orelse=orelse))
            case plan.Preload() | plan.Prefetch() | plan.Roles():
                self.out.append(op)
            case WarpgroupMma():
                self.out.append(op)
                self.products.append(op)
            case BoxOut():
                self._before(op)
                self.out.append(op)
                self.boxes.append(op)
            case _:
                self._before(op)
                self.out.append(op)
                self._fence(op)

    def _fence(self, op: Leaf) -> None:
        if isinstance(op, plan.CopyIn) and op.dst.buffer in self.read_by_hardware:
            message = f"{op.dst.buffer.name} is read by the hardware and copied by threads"
            raise reject(op.source.span, Code.NO_BOX, message, "name it in `tma`")
        for buffer in (buffer for buffer in _written(op) if buffer in self.read_by_hardware):
            self.out.append(ProxyFence(reason=f"write {buffer.name} -> read {buffer.name}"))

    def _before(self, op: Leaf) -> None:
        """Waits for the youngest group that the operation depends on, and with it for all older ones."""
        needed = [n for n, product in enumerate(self.products) if _needs_product(op, product)]
        if needed:
            product = self.products[needed[-1]]
            self._await_products(needed[-1] + 1, f"multiply to {product.acc.name} -> {_what(op)}")
        needed = [n for n, box in enumerate(self.boxes) if box.src.buffer in _written(op)]
        if needed:
            name = self.boxes[needed[-1]].src.buffer.name
            self._await_boxes(needed[-1] + 1, f"read {name} -> write {name}")

    def finish(self) -> None:
        """Nothing is under way any more."""
        if self.products:
            self._await_products(len(self.products), f"multiply to {self.products[-1].acc.name} -> end of the block")
        if self.boxes:
            self._await_boxes(len(self.boxes), f"read {self.boxes[-1].src.buffer.name} -> end of the block")

    def _await_products(self, n_oldest: int, reason: str) -> None:
        sums = tuple(dict.fromkeys(product.acc for product in self.products[:n_oldest]))
        self.products = self.products[n_oldest:]
        self.out.append(MmaWait(pending=len(self.products), sums=sums, reason=reason))

    def _await_boxes(self, n_oldest: int, reason: str) -> None:
        self.boxes = self.boxes[n_oldest:]
        self.out.append(BoxWait(pending=len(self.boxes), reason=reason))


def _read_by_hardware(op: Leaf) -> list[SharedBuffer]:
    match op:
        case BoxOut():
            return [op.src.buffer]
        case WarpgroupMma():
            return [op.a.buffer, op.b.buffer]
        case _:
            return []


def _needs_product(op: Leaf, product: WarpgroupMma) -> bool:
    """The next product of the same sum needs no wait: the hardware adds one after the other."""
    read = {product.a.buffer, product.b.buffer}
    if isinstance(op, RingRelease):
        return bool(read & set(op.ring.buffers))
    touches_sum = any(home == product.acc for home in operands(op))
    return touches_sum or bool(read & set(_written(op)))


def _written(op: Leaf) -> list[SharedBuffer]:
    """The buffers that the threads themselves write."""
    match op:
        case plan.StoreFragment() | plan.StoreRows() | plan.MapShared() | plan.ScanVector() | plan.DiagonalBlocks():
            return [op.dst.buffer]
        case plan.ExchangeWrite():
            return [op.scratch]
        case _:
            return []


def _what(op: Leaf) -> str:
    return f"release {op.ring.name}" if isinstance(op, RingRelease) else f"read {_sum_name(op)}"


def _sum_name(op: Leaf) -> str:
    named = [home.name for home in operands(op) if isinstance(home, plan.RegisterTile)]
    return named[-1] if named else next((ref.buffer.name for ref in shared_refs(op)), "")
