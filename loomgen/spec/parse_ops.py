"""Operators to statements: ``@``, sums, scans and the triangular inverse leave expressions before these are lowered.

Each becomes a Tile IR statement of its own, named after the spec statement it stands in (``x_mm``, ``z_sum``), unless
it is the whole right side, which then is that statement.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from loomgen.ir.tile import Contract, Expr, Inverse, Load, Map, Reduce, ReduceOp, Scan, ScanOp, TensorRead, TileRead
from loomgen.ir.types import DType, Index, Value
from loomgen.ir.walk import tile_reads, whole
from loomgen.spec import check_types as types
from loomgen.spec.check_indices import open_letters, operator_name, parts_in_order, plain_letters, subscripts
from loomgen.spec.codes import Code
from loomgen.spec.declarations import INVERSE, REDUCTIONS
from loomgen.spec.parse_expr import bound_index, lower_expr
from loomgen.spec.report import Reject
from loomgen.spec.scope import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The value that a right side becomes. ``want`` is the dtype that it must have: widened to, unless ``exact``."""

    name: str
    letters: tuple[str, ...]
    want: DType | None
    exact: bool = False

    @property
    def takes_f32(self) -> bool:
        return self.want in (None, DType.F32)


# --------------------------------------------------------------------------- right sides


def lower_into(ctx: Context, node: ast.expr, target: Target) -> Value:
    """Emit the statements of ``target = node``; the last one defines the returned value. Raises Reject or Skip."""
    value = _whole_operator(ctx, node, target)
    if value is not None:
        return value
    hoist(ctx, node)
    expr = fit(lower_expr(ctx, node, _default_dtype(target)), target)
    return define(ctx, expr, target.name, target.letters)


def _default_dtype(target: Target) -> DType | None:
    """What a lone literal is: ``S[e,d] = 0`` is a tile of floats, ``n_done = 0`` an integer."""
    return DType.F32 if target.want is None and target.letters else target.want


def fit(expr: Expr, target: Target) -> Expr:
    """``expr`` with the dtype that the left side wants. Raises :class:`Reject`."""
    want = target.want
    if want is None or expr.dtype is want:
        return expr
    if target.exact:
        message = f"a store of {expr.dtype.value} into a tensor of {want.value}"
        raise Reject(Code.STORE_DTYPE, expr.span, message, f"write `{want.value}(...)`")
    if not types.can_widen(expr.dtype, want):
        message = f"the name is {want.value} and carried, this is {expr.dtype.value}"
        raise Reject(Code.CARRIED_CHANGES, expr.span, message, f"write `{want.value}(...)`")
    return types.widen(expr, want)


def define(ctx: Context, expr: Expr, name: str, letters: tuple[str, ...]) -> Value:
    """Emit ``name[letters] = expr``: a Load when it is a tensor read and nothing else, else a Map."""
    value = Value(name=name, dtype=expr.dtype, indices=_indices(ctx, letters))
    text, span = ctx.origin.text, ctx.origin.span
    if isinstance(expr, TensorRead):
        ctx.scope.out.append(Load(value=value, source=expr, text=text, span=span))
    else:
        ctx.scope.out.append(Map(value=value, expr=expr, text=text, span=span))
    return value


def _whole_operator(ctx: Context, node: ast.expr, target: Target) -> Value | None:
    """The value, when the right side is one operator over exactly the left side's letters."""
    name = operator_name(node)
    if name == INVERSE:
        return _emit_inverse(ctx, node, target)
    if not target.takes_f32:
        return None
    if name == "@" and isinstance(node, ast.BinOp):
        return _whole_product(ctx, node, None, target)
    if name is not None and isinstance(node, ast.Call):
        return _emit_fold(ctx, node, target.name) if _fold_letters(ctx, node) == target.letters else None
    match node:
        case ast.BinOp(op=ast.Add(), left=seed, right=ast.BinOp(op=ast.MatMult()) as product):
            return _whole_product(ctx, product, seed, target)
        case ast.BinOp(op=ast.Add(), left=ast.BinOp(op=ast.MatMult()) as product, right=seed):
            return _whole_product(ctx, product, seed, target)
        case _:
            return None


def _whole_product(ctx: Context, node: ast.BinOp, seed: ast.expr | None, target: Target) -> Value | None:
    if set(open_letters(node, ctx.declarations)) != set(target.letters):
        return None
    start = None if seed is None else _lower_seed(ctx, seed, target)
    return _emit_contract(ctx, node, start, target.name)


def _lower_seed(ctx: Context, node: ast.expr, target: Target) -> TileRead:
    """What the sum starts from: an f32 tile over the left side's letters, read directly where it is one."""
    if not holds_operator(node):
        expr = lower_expr(ctx, node, DType.F32)
        if isinstance(expr, TileRead) and expr.dtype is DType.F32 and plain_letters(expr) == target.letters:
            return expr
    name = ctx.supply.helper(f"{ctx.origin.name}_seed")
    value = lower_into(ctx, node, Target(name=name, letters=target.letters, want=DType.F32))
    return whole(value, ctx.origin.span)


def holds_operator(node: ast.expr) -> bool:
    """Whether lowering the expression emits statements of its own."""
    return operator_name(node) is not None or any(holds_operator(part) for part in parts_in_order(node))


# --------------------------------------------------------------------------- operators inside expressions


def hoist(ctx: Context, node: ast.expr) -> None:
    """Emit the operators inside ``node``, left to right, and note the elements that take their places."""
    name = operator_name(node)
    if name is None:
        for part in parts_in_order(node):
            hoist(ctx, part)
        return
    if name == INVERSE:
        raise Reject(Code.BAD_INVERSE, ctx.text.span(node), f"`{INVERSE}` stands alone on a right side")
    helper = ctx.supply.helper(f"{ctx.origin.name}_{'mm' if name == '@' else name}")
    if isinstance(node, ast.BinOp):
        value = _emit_contract(ctx, node, None, helper)
    else:
        assert isinstance(node, ast.Call)
        value = _emit_fold(ctx, node, helper)
    ctx.hoisted[node] = whole(value, ctx.text.span(node))


def _emit_contract(ctx: Context, node: ast.BinOp, seed: TileRead | None, name: str) -> Value:
    left, right = (open_letters(part, ctx.declarations) for part in (node.left, node.right))
    over = _contracted(ctx, node, left, right)
    inner = replace(ctx, bound=(*ctx.bound, over))
    a = _operand(inner, node.left, left, "lhs")
    b = _operand(inner, node.right, right, "rhs")
    _check_operands(ctx, node, a, b)
    rows, cols = (next(letter for letter in letters if letter != over) for letters in (left, right))
    for letter in (rows, cols):
        if letter not in ctx.bound:
            message = f"index `{letter}` is neither on the left nor summed"
            raise Reject(Code.UNBOUND_INDEX, ctx.text.span(node), message)
    if ctx.bound.index(rows) > ctx.bound.index(cols):
        rows, cols, a, b = cols, rows, b, a
    value = Value(name=name, dtype=DType.F32, indices=_indices(ctx, (rows, cols)))
    index = ctx.declarations.indices[over]
    ctx.scope.out.append(
        Contract(value=value, a=a, b=b, over=index, seed=seed, text=ctx.origin.text, span=ctx.origin.span)
    )
    return value


def _contracted(ctx: Context, node: ast.BinOp, left: tuple[str, ...], right: tuple[str, ...]) -> str:
    shared, span = [letter for letter in left if letter in right], ctx.text.span(node)
    if not shared:
        hint = "bracket the product: `x*(a @ b)`" if left == () or right == () else None
        raise Reject(Code.NOTHING_TO_CONTRACT, span, "the operands of `@` share no index", hint)
    if len(shared) > 1:
        message = f"the operands of `@` share {', '.join(f'`{letter}`' for letter in shared)}: which one is summed?"
        raise Reject(Code.SEVERAL_TO_CONTRACT, span, message, "sum over several indices with `sum[...](a*b)`")
    if len(left) != 2 or len(right) != 2:
        message = f"operands of `@` over ({','.join(left)}) and ({','.join(right)}): want two indices each"
        raise Reject(Code.OPERAND_RANK, span, message, "`sum[...](a*b)` sums anything")
    if shared[0] in ctx.bound:
        raise Reject(Code.SUMMED_AND_BOUND, span, f"index `{shared[0]}` is contracted here and bound outside")
    return shared[0]


def _check_operands(ctx: Context, node: ast.BinOp, a: TileRead, b: TileRead) -> None:
    if a.dtype is b.dtype and a.dtype.is_float:
        return
    message = f"the operands of `@` are {a.dtype.value} and {b.dtype.value}"
    hint = "round one explicitly, as in `bf16(x) @ y`" if a.dtype.is_float and b.dtype.is_float else None
    raise Reject(Code.OPERAND_DTYPES, ctx.text.span(node), message, hint)


def _operand(ctx: Context, node: ast.expr, letters: tuple[str, ...], side: str) -> TileRead:
    """A tile that is read whole stays as it is; anything else becomes a tile first."""
    hoist(ctx, node)
    expr = lower_expr(ctx, node)
    if isinstance(expr, TileRead) and plain_letters(expr) is not None:
        return expr
    name = ctx.supply.helper(f"{ctx.origin.name}_{side}")
    return whole(define(ctx, expr, name, _axis_order(expr, letters)), ctx.origin.span)


def _axis_order(expr: Expr, letters: tuple[str, ...]) -> tuple[str, ...]:
    """The axes of the tile that the expression scales, so that it keeps that tile's layout."""
    orders = (plain_letters(read) for read in tile_reads(expr))
    return next((order for order in orders if order is not None and set(order) == set(letters)), letters)


def _emit_fold(ctx: Context, node: ast.Call, name: str) -> Value:
    """A sum, maximum or running sum."""
    operator, over = operator_name(node), _named_letters(ctx, node)
    if len(node.args) != 1:
        raise Reject(Code.BAD_CALL, ctx.text.span(node), f"`{operator}` takes one argument")
    reduces = operator in REDUCTIONS
    bound_twice = [letter for letter in over if letter in ctx.bound]
    if reduces and bound_twice:
        message = f"index `{bound_twice[0]}` is summed here and bound outside"
        raise Reject(Code.SUMMED_AND_BOUND, ctx.text.span(node), message)
    inner = replace(ctx, bound=(*ctx.bound, *over)) if reduces else ctx
    hoist(inner, node.args[0])
    expr = lower_expr(inner, node.args[0], DType.F32)
    if not expr.dtype.is_float:
        raise Reject(Code.BAD_OPERAND, expr.span, f"`{operator}` is not defined on {expr.dtype.value}")
    value = Value(name=name, dtype=DType.F32, indices=_indices(ctx, _fold_letters(ctx, node)))
    indices = _indices(ctx, over)
    ctx.scope.out.append(_fold_statement(ctx, operator, indices, types.widen(expr, DType.F32), value))
    return value


def _fold_statement(
    ctx: Context, operator: str | None, over: tuple[Index, ...], expr: Expr, value: Value
) -> Reduce | Scan:
    text, span = ctx.origin.text, ctx.origin.span
    if operator in REDUCTIONS:
        return Reduce(value=value, op=ReduceOp(operator), over=over, expr=expr, text=text, span=span)
    return Scan(value=value, op=ScanOp(operator), along=over[0], expr=expr, text=text, span=span)


def _named_letters(ctx: Context, node: ast.Call) -> tuple[str, ...]:
    """The letters in the brackets of an operator. Raises :class:`Reject`."""
    assert isinstance(node.func, ast.Subscript)
    operator, names = operator_name(node), subscripts(node.func)
    used = [letter for argument in node.args for letter in open_letters(argument, ctx.declarations)]
    for part in names:
        if not (isinstance(part, ast.Name) and part.id in used):
            message = f"`{operator}` runs over index letters of its argument"
            raise Reject(Code.OPERATOR_INDEX, ctx.text.span(part), message)
        if operator not in REDUCTIONS:
            bound_index(ctx, part)
    if operator not in REDUCTIONS and len(names) != 1:
        raise Reject(Code.OPERATOR_INDEX, ctx.text.span(node), f"`{operator}` runs over one index")
    return tuple(part.id for part in names if isinstance(part, ast.Name))


def _fold_letters(ctx: Context, node: ast.Call) -> tuple[str, ...]:
    """The letters of an operator's result, in the order in which they are bound."""
    letters = open_letters(node, ctx.declarations)
    return tuple(letter for letter in ctx.bound if letter in letters)


def _emit_inverse(ctx: Context, node: ast.expr, target: Target) -> Value:
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
    span = ctx.text.span(node)
    named = tuple(part.id if isinstance(part, ast.Name) else "" for part in subscripts(node.func))
    if len(node.args) != 1 or len(named) != 2 or named != target.letters:
        raise Reject(Code.BAD_INVERSE, span, f"want `x[i,j] = {INVERSE}[i,j](L[i,j])`, the same letters throughout")
    source = lower_expr(ctx, node.args[0])
    if not isinstance(source, TileRead) or plain_letters(source) != named or source.dtype is not DType.F32:
        message = f"the argument of `{INVERSE}` is an f32 tile over {','.join(named)}"
        raise Reject(Code.BAD_INVERSE, source.span, message)
    rows, cols = _indices(ctx, named)
    if rows.symbol != cols.symbol or not target.takes_f32:
        raise Reject(Code.BAD_INVERSE, span, "the inverse is a square f32 tile")
    value = Value(name=target.name, dtype=DType.F32, indices=(rows, cols))
    ctx.scope.out.append(Inverse(value=value, source=source, text=ctx.origin.text, span=ctx.origin.span))
    return value


def _indices(ctx: Context, letters: tuple[str, ...]) -> tuple[Index, ...]:
    return tuple(ctx.declarations.indices[letter] for letter in letters)
