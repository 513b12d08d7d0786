"""Small plans for the passes' tests: buffers, and operations that touch them in ways easy to think through."""

from __future__ import annotations

from loomgen.errors import Span
from loomgen.ir import plan
from loomgen.ir.plan import Fragment, Plan, PlanOp, RegisterTile, SharedBuffer, SharedRef, Team
from loomgen.ir.tile import Access, Const, Tensor, TensorRead, Window, WindowKind
from loomgen.ir.types import DType, Index

SPAN = Span(path="specs/gdn/small.yaml", line=1, col=1, end_col=2)
ROWS, J = (Index(name=name, symbol="C", extent=32) for name in "ij")
D = Index(name="d", symbol="K", extent=32)
TWO_WARPS = Team(slabs=2, parts=1)
ONE_WARP = Team(slabs=1, parts=1)
X = Tensor(
    name="x", dtype=DType.BF16, shape=("T", 32), access=Access.IN, strides="contiguous", optional=False, span=SPAN
)
SEQUENCE = Window(name="n", kind=WindowKind.SEQUENCE, extent=0, parent=None, span=SPAN)
CHUNKS = Window(name="c", kind=WindowKind.CHUNK, extent=32, parent="n", span=SPAN)


def buffer(name: str, rows: int = 32, cols: int = 32, dtype: DType = DType.BF16, slots: int = 1) -> SharedBuffer:
    """Rows of ``cols`` elements without padding or swizzle."""
    return SharedBuffer(name=name, dtype=dtype, rows=rows, cols=cols, pitch=cols, swizzle=0, slots=slots)


def ref(of: SharedBuffer, ahead: int = 0) -> SharedRef:
    return SharedRef(buffer=of, axes=(ROWS, D), ahead=ahead)


def tile(name: str, rows: Index = ROWS, cols: Index = D) -> RegisterTile:
    """A 16-bit fragment."""
    return RegisterTile(name=name, dtype=DType.BF16, fragment=Fragment(rows=rows, cols=cols, col_parts=1))


def copy_in(to: SharedBuffer, ahead: int = 0) -> plan.CopyIn:
    """Written by threads in turn, 16 bytes each: a row of 32 elements is four threads'."""
    source = TensorRead(tensor=X, coords=(), span=SPAN)
    return plan.CopyIn(
        dst=ref(to, ahead), source=source, homes=(), vector_bytes=16, ahead=ahead, text=f"copy in {to.name}"
    )


def copy_out(of: SharedBuffer) -> plan.CopyOut:
    """Read by the threads that :func:`copy_in` has write."""
    return plan.CopyOut(tensor=X, coords=(), homes=(), src=ref(of), text=f"copy out {of.name}")


def load(of: SharedBuffer) -> plan.LoadFragment:
    """Read by ldmatrix: each warp its own 16 rows, lane l the address of row l % 16."""
    return plan.LoadFragment(dst=tile(f"{of.name}_id"), src=ref(of), transposed=False, text=f"load {of.name}")


def store(to: SharedBuffer) -> plan.StoreFragment:
    """Written by stmatrix: the lanes that :func:`load` has read."""
    return plan.StoreFragment(dst=ref(to), src=tile(f"{to.name}_id"), transposed=False, text=f"store {to.name}")


def everyone_reads(*buffers: SharedBuffer) -> plan.Arrive:
    return plan.Arrive(refs=tuple(ref(each) for each in buffers))


def kernel(*body: PlanOp, team: Team = TWO_WARPS) -> Plan:
    return Plan(team=team, body=body)


def describe(ops: tuple[PlanOp, ...], indent: str = "") -> list[str]:
    """One line an operation: what it is and the buffer it touches, loops indented."""
    lines: list[str] = []
    for op in ops:
        match op:
            case plan.Wait():
                lines.append(f"{indent}wait {op.pending}: {op.reason}")
            case plan.Barrier():
                lines.append(f"{indent}{op.scope.name.lower()} barrier: {op.reason}")
            case plan.Commit():
                lines.append(f"{indent}commit")
            case plan.Arrive():
                lines.append(f"{indent}arrive {' '.join(each.buffer.name for each in op.refs)}")
            case plan.Preload() | plan.Prefetch():
                names = " ".join(copy.dst.buffer.name for copy in op.copies)
                count = op.count if isinstance(op, plan.Preload) else op.ahead
                lines.append(f"{indent}{type(op).__name__.lower()} {count}: {names}")
            case plan.ChunkLoop() | plan.RangeLoop():
                lines += [f"{indent}loop", *describe(op.body, indent + "  ")]
            case _:
                lines.append(f"{indent}{getattr(op, 'text', type(op).__name__)}")
    return lines


def loop(*body: PlanOp) -> plan.ChunkLoop:
    return plan.ChunkLoop(window=CHUNKS, body=body, text="for c in chunks(n)")


def numbered_loop(n: int, *body: PlanOp) -> plan.RangeLoop:
    """``for m in range(n)``."""
    begin, end = (Const(value=value, dtype=DType.I32, span=SPAN) for value in (0, n))
    return plan.RangeLoop(name="m", begin=begin, end=end, homes=(), body=body, text=f"for m in range({n})")


def ring_loop(ring: SharedBuffer, *work: PlanOp) -> tuple[PlanOp, ...]:
    """A loop whose copies run ``slots - 1`` iterations ahead."""
    ahead = ring.slots - 1
    top = (
        everyone_reads(ring),
        plan.Prefetch(window=CHUNKS, ahead=ahead, copies=(copy_in(ring, ahead),)),
        plan.Commit(),
    )
    return (plan.Preload(window=CHUNKS, count=ahead, copies=(copy_in(ring),)), loop(*top, *work))
