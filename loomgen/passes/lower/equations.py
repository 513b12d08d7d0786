"""What each of the operations that carry out one statement computes, as an equation above its code."""

from __future__ import annotations

from dataclasses import replace

from loomgen.ir import plan, walk
from loomgen.ir.plan import Home, PlanOp, RegisterLayout, RegisterTile, RowTile, ScalarHome, SharedRef, StripTile
from loomgen.ir.print_tile import print_coord, print_expr
from loomgen.ir.tile import Expr, ReduceOp, ScanOp, Sub, TileRead
from loomgen.passes.lower.names import Naming


def equations(ops: tuple[PlanOp, ...], naming: Naming) -> dict[int, tuple[str, ...]]:
    """Comment lines by the number of the operation in its block; none for a statement of a single operation, which its
    own text explains, unless it only completes what the statement began earlier or goes on in another value's array.
    """
    found: dict[int, tuple[str, ...]] = {}
    run: dict[int, tuple[str, ...]] = {}
    text = ""
    for at, op in enumerate(ops):
        if isinstance(op, plan.Wait | plan.Barrier):
            continue
        if getattr(op, "text", "") != text:
            found |= _worth_saying(run, ops)
            text, run = getattr(op, "text", ""), {}
        if lines := _equation(op, naming):
            run[at] = lines
    return found | _worth_saying(run, ops)


def _worth_saying(run: dict[int, tuple[str, ...]], ops: tuple[PlanOp, ...]) -> dict[int, tuple[str, ...]]:
    return run if len(run) > 1 or any(_completes_rows(ops[at]) or _goes_on(ops[at]) for at in run) else {}


def _completes_rows(op: PlanOp) -> bool:
    """Numbers of rows are completed apart from their reduction (`passes.gather_exchanges`)."""
    return isinstance(op, plan.ExchangeRead) and isinstance(op.dst, RowTile)


def _goes_on(op: PlanOp) -> bool:
    """A product is added where an earlier value stands, under that one's name (`passes.storage`)."""
    return isinstance(op, plan.Mma) and op.seeded and op.acc.name != op.text.partition("[")[0]


def _equation(op: PlanOp, naming: Naming) -> tuple[str, ...]:
    match op:
        case plan.MapFragment() | plan.MapRows() | plan.MapShared() | plan.MapScalar():
            return (f"{_home(op.dst, naming)} = {_expression(op.expr, op.homes, naming)}",)
        case plan.ReduceColumns():
            sum_ = f"{op.op.value}[{op.layout.cols}]({_expression(op.expr, op.homes, naming)})"
            return (f"{_home(op.dst, naming)} = {sum_}",)
        case plan.ScanVector():
            letter = op.dst.axes[0].name
            name = "cumsum" if op.op is ScanOp.CUMSUM else "suffix_sum"
            return (f"{_home(op.dst, naming)} = {name}[{letter}]({_home(op.src, naming)})",)
        case plan.Mma():
            sign = "+=" if op.seeded else "="
            left = f"{naming.local(op.a.name)}[{op.a.fragment.rows},{op.over}]"
            return (f"{_home(op.acc, naming)} {sign} {left} @ {_home(op.b, naming)}",)
        case plan.ExchangeWrite():
            what = "numbers" if isinstance(op.src, RowTile) else "sums"
            return (f"{naming.local(op.src.name)}: every part's {what} to shared memory",)
        case plan.ExchangeRead() if op.op is ReduceOp.MAX:
            return (f"{_home(op.dst, naming)} = max({_home(op.dst, naming)}, the other part)",)
        case plan.ExchangeRead():
            return (f"{_home(op.dst, naming)} += the other part",)
        case plan.DiagonalBlocks():
            return _inverse(op, naming)
        case plan.LoadFragment() | plan.StoreFragment():
            return (f"{_home(op.dst, naming)} = {_home(op.src, naming)}",)
        case plan.CopyOut():
            target = f"{op.tensor.name}[{','.join(print_coord(coord) for coord in op.coords)}]"
            return (f"{target} = {_home(op.src, naming)}",)
        case _:
            return ()


def _inverse(op: plan.DiagonalBlocks, naming: Naming) -> tuple[str, ...]:
    """How the 16-row blocks of the inverse follow from those of the diagonal (`passes.lower_inverse`)."""
    source, diagonal = naming.tile(op.src), naming.tile(op.dst)
    base = op.dst.buffer.name.removesuffix("_diag")
    return (
        f"X = (1 + L)^-1 by blocks of 16 rows, L in {source}, E the identity, D_r the inverse of diagonal block r:",
        "    X_r = D_r (E_r - sum over m < r of L_rm X_m).",
        f"{base}<r> is X_r transposed, so that a warp has its rows of every block; {base}<r>_sum is the sum,",
        f"{base}<r>_rhs the bracket, {base}<r>_t X_r as an operand. First {diagonal}, a D_r for each warp:",
    )


# --------------------------------------------------------------------------- operands


def _home(home: Home, naming: Naming) -> str:
    match home:
        case RegisterTile() | StripTile():
            layout = home.layout
            return f"{naming.local(home.name)}[{layout.rows},{layout.cols}]"
        case RowTile():
            return f"{naming.local(home.name)}[{home.layout.rows}]"
        case SharedRef():
            starts = (home.row0, home.col0) if len(home.axes) == 2 else (home.col0,)
            axes = (f"{axis}+{start}" if start else str(axis) for axis, start in zip(home.axes, starts, strict=True))
            return f"{naming.tile(home)}[{','.join(axes)}]"
        case ScalarHome():
            return naming.local(home.name)


def _expression(expr: Expr, homes: plan.Homes, naming: Naming) -> str:
    """With each tile under the name that the code has for it."""
    known = dict(homes)

    def renamed(node: Expr) -> Expr:
        if not isinstance(node, TileRead) or node.value.name not in known:
            return node
        home = known[node.value.name]
        subs = _in_layout(node, home.layout) if isinstance(home, RegisterTile | StripTile) else node.subs
        return replace(node, value=replace(node.value, name=_variable(home, naming)), subs=subs)

    return print_expr(walk.rewrite(expr, renamed))


def _in_layout(read: TileRead, layout: RegisterLayout) -> tuple[Sub, ...]:
    """The subscripts of a tile's rows and columns as its registers hold them, which may be transposed."""
    by_axis = dict(zip(read.value.indices, read.subs, strict=True))
    if layout.rows not in by_axis or layout.cols not in by_axis:
        return read.subs
    return by_axis[layout.rows], by_axis[layout.cols]


def _variable(home: Home, naming: Naming) -> str:
    return naming.tile(home) if isinstance(home, SharedRef) else naming.local(home.name)
