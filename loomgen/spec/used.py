"""Which arguments a lowered program uses: only these become arguments of its kernel."""

from __future__ import annotations

from dataclasses import dataclass

from loomgen.ir.tile import ArgRead, Given, Stmt, Store, TensorRead
from loomgen.ir.walk import expressions, nodes, statements


@dataclass(frozen=True, slots=True)
class ProgramUse:
    """Names of tensors (read, stored or asked for with ``given``), and of scalars and run-time dims read."""

    tensors: frozenset[str]
    arguments: frozenset[str]


def used_by(body: tuple[Stmt, ...]) -> ProgramUse:
    """What the statements use, those inside loops and branches included."""
    all_statements = list(statements(body))
    tensors = {stmt.tensor.name for stmt in all_statements if isinstance(stmt, Store)}
    arguments: set[str] = set()
    for expr in (node for stmt in all_statements for root in expressions(stmt) for node in nodes(root)):
        match expr:
            case TensorRead(tensor=tensor) | Given(tensor=tensor):
                tensors.add(tensor.name)
            case ArgRead(name=name):
                arguments.add(name)
            case _:
                pass
    return ProgramUse(frozenset(tensors), frozenset(arguments))
