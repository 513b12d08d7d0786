"""Statements: a program's assignments, stores, loops and branches to Tile IR in SSA form."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from loomgen.ir.tile import (
    Carry,
    Const,
    Expr,
    ForRange,
    ForWindow,
    If,
    Merge,
    Stmt,
    Store,
    TileRead,
    Window,
    WindowKind,
)
from loomgen.ir.types import DType, Value
from loomgen.ir.walk import whole
from loomgen.spec import check_types as types
from loomgen.spec.check_indices import open_letters, plain_letters, subscripts
from loomgen.spec.codes import Code
from loomgen.spec.declarations import CHUNK_DIM, CODE_WORDS, Declarations
from loomgen.spec.parse_expr import lower_coords, lower_expr
from loomgen.spec.parse_ops import Target, hoist, holds_operator, lower_into
from loomgen.spec.report import Collector, Reject, Skip
from loomgen.spec.scope import Context, NameSupply, Origin, Scope
from loomgen.spec.source import Text
from loomgen.spec.statement_text import statement_text
from loomgen.spec.walk_program import assigned_names, last_reads, left_base, loop_names, without_returns


def lower_program(
    body: list[ast.stmt], text: Text, declarations: Declarations, diagnostics: Collector
) -> tuple[Stmt, ...]:
    """The Tile IR of a program whose static branches are decided; mistakes are recorded in ``diagnostics``."""
    straight = without_returns(body)
    names = assigned_names(straight)
    declared = [*declarations.tensors, *declarations.scalars, *declarations.runtime_dims]
    declared += [*declarations.statics.numbers, *declarations.grid, *declarations.where]
    declared += [*declarations.indices, *loop_names(straight)]
    windows = {name: axis.window for name, axis in declarations.grid.items() if axis.window is not None}
    scope = Scope(windows=windows, counters=set(declarations.grid) - set(windows))
    supply = NameSupply([name for name in names if name not in declarations.tensors], declared)
    lowering = _Lowering(text, declarations, diagnostics, supply, last_reads(straight))
    lowering.block(scope, straight)
    return tuple(scope.out)


@dataclass(frozen=True, slots=True)
class _Lowering:
    text: Text
    declarations: Declarations
    diagnostics: Collector
    supply: NameSupply
    last_reads: dict[str, tuple[int, int]]

    def block(self, scope: Scope, body: list[ast.stmt]) -> None:
        for node in body:
            with self.diagnostics.collecting():
                self._statement(scope, node)

    def _statement(self, scope: Scope, node: ast.stmt) -> None:
        match node:
            case ast.Assign():
                self._assign(scope, node)
            case ast.For():
                self._loop(scope, node)
            case ast.If():
                self._branch(scope, node)
            case _:
                hint = "`return` ends an arm of an `if` outside loops and other branches"
                raise Reject(Code.MISPLACED_RETURN, self.text.span(node), "`return` cannot stand here", hint)

    def _context(self, scope: Scope, node: ast.stmt, name: str, bound: tuple[str, ...]) -> Context:
        return Context(
            declarations=self.declarations,
            scope=scope,
            supply=self.supply,
            text=self.text,
            origin=Origin(name=name, text=statement_text(node), span=self.text.span(node)),
            bound=bound,
            hoisted={},
        )

    # ----------------------------------------------------------------------- assignments and stores

    def _assign(self, scope: Scope, node: ast.Assign) -> None:
        base = left_base(node.targets[0])
        if base is None:
            message = "a left side is a name, a name with index letters or a tensor element"
            raise Reject(Code.BAD_TARGET, self.text.span(node.targets[0]), message)
        if base.id in self.declarations.tensors:
            self._store(scope, node, base.id)
            return
        try:
            scope.values[base.id] = self._define(scope, node, base)
            scope.lost.pop(base.id, None)
            scope.poisoned.discard(base.id)
        except Skip:
            scope.poisoned.add(base.id)
            raise
        finally:
            scope.assigned.add(base.id)

    def _define(self, scope: Scope, node: ast.Assign, base: ast.Name) -> Value:
        name, span = base.id, self.text.span(node.targets[0])
        if self.declarations.declares(name) or name in scope.windows or name in scope.counters:
            raise Reject(Code.DECLARED_NAME, span, f"`{name}` is declared and cannot be assigned")
        if name in scope.assigned:
            hint = "a name is assigned once; give the new value a name of its own"
            raise Reject(Code.ASSIGNED_TWICE, span, f"`{name}` is assigned twice in this block", hint)
        letters = self._left_letters(node.targets[0])
        before = scope.values.get(name)
        if before is not None and tuple(index.name for index in before.indices) != letters:
            axes = ",".join(index.name for index in before.indices)
            raise Reject(Code.CARRIED_CHANGES, span, f"`{name}` is carried over the indices [{axes}]")
        want = None if before is None else before.dtype
        target = Target(name=self.supply.fresh(name), letters=letters, want=want)
        return lower_into(self._context(scope, node, name, letters), node.value, target)

    def _left_letters(self, target: ast.expr) -> tuple[str, ...]:
        parts = subscripts(target) if isinstance(target, ast.Subscript) else []
        letters = []
        for part in parts:
            if not (isinstance(part, ast.Name) and part.id in self.declarations.indices):
                raise Reject(Code.BAD_TARGET, self.text.span(part), "the left side of a tile has index letters only")
            if part.id in letters:
                raise Reject(Code.REPEATED_INDEX, self.text.span(part), f"index `{part.id}` stands twice on the left")
            letters.append(part.id)
        return tuple(letters)

    def _store(self, scope: Scope, node: ast.Assign, name: str) -> None:
        target = node.targets[0]
        if not isinstance(target, ast.Subscript):
            raise Reject(Code.WRONG_RANK, self.text.span(target), f"tensor `{name}` needs its subscripts")
        letters = tuple(x for part in subscripts(target) for x in open_letters(part, self.declarations))
        ctx = self._context(scope, node, name, tuple(dict.fromkeys(letters)))
        coords = lower_coords(ctx, name, target)
        tensor = self.declarations.tensors[name]
        source = self._stored(ctx, node.value, tensor.dtype)
        text, span = ctx.origin.text, ctx.origin.span
        scope.out.append(Store(tensor=tensor, coords=coords, source=source, text=text, span=span))

    def _stored(self, ctx: Context, node: ast.expr, want: DType) -> TileRead:
        """The tile to store: one named by its own letters as it is, anything else as a value of its own."""
        if not holds_operator(node):
            expr = lower_expr(ctx, node, want)
            if isinstance(expr, TileRead) and expr.dtype is want and _is_own(expr):
                return expr
        name = self.supply.helper(f"{ctx.origin.name}_tile")
        value = lower_into(ctx, node, Target(name=name, letters=ctx.bound, want=want, exact=True))
        return whole(value, ctx.text.span(node))

    # ----------------------------------------------------------------------- loops

    def _loop(self, scope: Scope, node: ast.For) -> None:
        span = self.text.span(node.iter)
        if not (isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Call)):
            raise Reject(
                Code.WINDOW_MISUSE,
                span,
                "loops are `for c in chunks(n):`, `for c in reversed(chunks(n)):` and `for m in range(a, b):`",
            )
        name = node.target.id
        if name in CODE_WORDS:
            raise Reject(Code.NAME_CLASH, self.text.span(node.target), f"kernels have something else called `{name}`")
        taken = self.declarations.declares(name) or name in scope.windows or name in scope.counters
        if taken or name in scope.values:
            raise Reject(Code.DECLARED_NAME, self.text.span(node.target), f"`{name}` has a meaning already")
        match node.iter.func:
            case ast.Name(id="chunks"):
                self._chunks(scope, node, name, node.iter)
            case ast.Name(id="reversed"):
                self._chunks(scope, node, name, self._turned(node.iter), is_reversed=True)
            case ast.Name(id="range"):
                self._range(scope, node, name, node.iter)
            case _:
                raise Reject(
                    Code.WINDOW_MISUSE, span, "loops run over `chunks(<sequence>)`, reversed or not, and `range(...)`"
                )

    def _turned(self, call: ast.Call) -> ast.Call:
        """The chunks that ``reversed`` takes."""
        match call.args:
            case [ast.Call(func=ast.Name(id="chunks")) as chunks]:
                return chunks
            case _:
                hint = "an integer loop counts up: `for m in range(n):`, and `n - 1 - m` counts down in it"
                raise Reject(Code.WINDOW_MISUSE, self.text.span(call), "`reversed` takes `chunks(<sequence>)`", hint)

    def _chunks(self, scope: Scope, node: ast.For, name: str, call: ast.Call, *, is_reversed: bool = False) -> None:
        span = self.text.span(call)
        match call.args:
            case [ast.Name(id=sequence)]:
                parent = scope.windows.get(sequence)
            case _:
                parent = None
        if parent is None or parent.kind is not WindowKind.SEQUENCE:
            raise Reject(Code.WINDOW_MISUSE, span, "`chunks` takes a sequence, as in `grid: {n: sequences}`")
        extent = self.declarations.statics.numbers.get(CHUNK_DIM)
        if extent is None:
            raise Reject(Code.UNKNOWN_STATIC, span, f"chunks have {CHUNK_DIM} tokens: `dims` must give {CHUNK_DIM}")
        window_span = self.text.span(node.target)
        window = Window(
            name=name, kind=WindowKind.CHUNK, extent=extent, parent=parent.name, span=window_span, symbol=CHUNK_DIM
        )
        inner = scope.child()
        inner.windows[name] = window
        text, span = statement_text(node), self.text.span(node)

        def build(carried: tuple[Carry, ...]) -> Stmt:
            body = tuple(inner.out)
            return ForWindow(window=window, carried=carried, body=body, text=text, span=span, is_reversed=is_reversed)

        self._loop_body(scope, inner, node, build)

    def _range(self, scope: Scope, node: ast.For, name: str, call: ast.Call) -> None:
        if len(call.args) not in (1, 2):
            raise Reject(Code.BAD_CALL, self.text.span(call), "`range` takes one or two bounds")
        bounds = [self._uniform(scope, node, bound, DType.I32) for bound in call.args]
        for bound in bounds:
            if not types.is_integer(bound.dtype):
                raise Reject(Code.BAD_OPERAND, bound.span, f"a bound of `range` is an integer, not {bound.dtype.value}")
        begin = bounds[0] if len(bounds) == 2 else Const(value=0, dtype=DType.I32, span=bounds[0].span)
        inner = scope.child()
        inner.counters.add(name)
        text, span = statement_text(node), self.text.span(node)

        def build(carried: tuple[Carry, ...]) -> Stmt:
            return ForRange(
                name=name, begin=begin, end=bounds[-1], carried=carried, body=tuple(inner.out), text=text, span=span
            )

        self._loop_body(scope, inner, node, build)

    def _loop_body(self, scope: Scope, inner: Scope, node: ast.For, build: Callable[[tuple[Carry, ...]], Stmt]) -> None:
        """Lower the body of a loop with the names that it carries, and leave their results in ``scope``."""
        names = [name for name in assigned_names(node.body) if name not in self.declarations.tensors]
        carried = [name for name in names if name in scope.values]
        entry = {name: replace(scope.values[name], name=self.supply.fresh(name)) for name in carried}
        inner.values.update(entry)
        self.block(inner, node.body)
        results = {name: replace(scope.values[name], name=self.supply.fresh(name)) for name in carried}
        carries = tuple(
            Carry(init=scope.values[name], inner=entry[name], update=inner.values[name], result=results[name])
            for name in carried
        )
        scope.out.append(build(carries))
        scope.values.update(results)
        scope.poisoned |= inner.poisoned
        scope.lost.update({name: "only inside a loop" for name in names if name not in carried})

    # ----------------------------------------------------------------------- branches

    def _uniform(self, scope: Scope, node: ast.stmt, value: ast.expr, want: DType | None) -> Expr:
        letters = open_letters(value, self.declarations)
        if letters:
            hint = "per element, write `x if cond else y`"
            message = f"this depends on the index `{letters[0]}`, so it is not one value for the whole cell"
            raise Reject(Code.NOT_UNIFORM, self.text.span(value), message, hint)
        ctx = self._context(scope, node, "cond", ())
        hoist(ctx, value)
        return lower_expr(ctx, value, want)

    def _branch(self, scope: Scope, node: ast.If) -> None:
        if isinstance(node.test, ast.Constant) and node.test.value is True:
            self._static_arm(scope, node.body)
            return
        cond: Expr = Const(value=True, dtype=DType.BOOL, span=self.text.span(node.test))
        with self.diagnostics.collecting():
            cond = types.condition(self._uniform(scope, node, node.test, None))
        then, orelse = scope.child(), scope.child()
        self.block(then, node.body)
        self.block(orelse, node.orelse)
        merges = self._merge(scope, then, orelse, node)
        text, span = statement_text(node), self.text.span(node)
        arms = (tuple(then.out), tuple(orelse.out))
        scope.out.append(If(cond=cond, then=arms[0], orelse=arms[1], merges=merges, text=text, span=span))

    def _static_arm(self, scope: Scope, body: list[ast.stmt]) -> None:
        """The taken arm of a static branch is part of the block, except that it may assign the block's names anew."""
        outer, scope.assigned = scope.assigned, set()
        self.block(scope, body)
        scope.assigned |= outer

    def _merge(self, scope: Scope, then: Scope, orelse: Scope, node: ast.If) -> tuple[Merge, ...]:
        scope.poisoned |= then.poisoned | orelse.poisoned
        merges = []
        names = [name for name in assigned_names([node]) if name not in self.declarations.tensors]
        for name in names:
            a, b, before = then.values.get(name), orelse.values.get(name), scope.values.get(name)
            if a is None or b is None or (a.indices, a.dtype) != (b.indices, b.dtype):
                scope.lost[name] = "in one arm of an `if` only" if a is None or b is None else "differently in two arms"
                continue
            if before is None and not self._is_read_after(name, node):
                continue
            result = replace(a, name=self.supply.fresh(name))
            merges.append(Merge(then=a, orelse=b, result=result))
            scope.values[name] = result
        return tuple(merges)

    def _is_read_after(self, name: str, node: ast.If) -> bool:
        end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self.last_reads.get(name, (0, 0)) > end


def _is_own(read: TileRead) -> bool:
    """Whether it names the tile by the letters that the tile was made with: not transposed, no element of it."""
    return plain_letters(read) == tuple(index.name for index in read.value.indices)
