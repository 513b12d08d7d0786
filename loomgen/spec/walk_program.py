"""Questions about a program's syntax that the lowering asks: what is assigned, what is read, where it returns."""

from __future__ import annotations

import ast
import copy


def left_base(target: ast.expr) -> ast.Name | None:
    """The name of a left side: ``x`` of ``x`` and of ``x[e,i]``."""
    base = target.value if isinstance(target, ast.Subscript) else target
    return base if isinstance(base, ast.Name) else None


def assigned_names(body: list[ast.stmt]) -> tuple[str, ...]:
    """Every name on a left side inside ``body``, tensors included, in order of first appearance."""
    bases = (left_base(target) for target in _targets(body))
    return tuple(dict.fromkeys(base.id for base in bases if base is not None))


def _targets(body: list[ast.stmt]) -> list[ast.expr]:
    found: list[ast.expr] = []
    for node in body:
        if isinstance(node, ast.Assign):
            found += node.targets
        if isinstance(node, (ast.For, ast.If)):
            found += _targets([*node.body, *node.orelse])
    return found


def loop_names(body: list[ast.stmt]) -> tuple[str, ...]:
    """The windows and integers that loops bind."""
    loops = (node for root in body for node in ast.walk(root) if isinstance(node, ast.For))
    return tuple(dict.fromkeys(node.target.id for node in loops if isinstance(node.target, ast.Name)))


def last_reads(body: list[ast.stmt]) -> dict[str, tuple[int, int]]:
    """The place (row, column) of each name's last use on a right side, in a condition or in a subscript."""
    uses: dict[str, tuple[int, int]] = {}
    left = {id(base) for target in _targets(body) if (base := left_base(target)) is not None}
    nodes = (node for root in body for node in ast.walk(root) if id(node) not in left)
    for node in (node for node in nodes if isinstance(node, ast.Name)):
        uses[node.id] = max(uses.get(node.id, (0, 0)), (node.lineno, node.col_offset))
    return uses


def without_returns(body: list[ast.stmt]) -> list[ast.stmt]:
    """``if cond: A; return`` followed by B becomes ``if cond: A else: B``; other returns stay and are refused."""
    for k, node in enumerate(body):
        if not isinstance(node, ast.If):
            continue
        before, rest = body[:k], body[k + 1 :]
        if _returns(node.body) and _is_decided(node):
            return [*before, _branch(node, node.body[:-1], [])]
        if _returns(node.body):
            return [*before, _branch(node, node.body[:-1], without_returns([*node.orelse, *rest]))]
        if _returns(node.orelse):
            return [*before, _branch(node, without_returns([*node.body, *rest]), node.orelse[:-1])]
    return body


def _returns(arm: list[ast.stmt]) -> bool:
    return bool(arm) and isinstance(arm[-1], ast.Return)


def _is_decided(node: ast.If) -> bool:
    return isinstance(node.test, ast.Constant)


def _branch(node: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.If:
    branch = copy.copy(node)
    branch.body, branch.orelse = body, orelse
    return branch
