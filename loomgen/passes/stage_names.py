"""The names of a program, which nothing that a pass invents may have."""

from __future__ import annotations

from loomgen.ir import tile, walk
from loomgen.ir.kernel import tensor_map_name
from loomgen.ir.tile import Program
from loomgen.passes.arguments import possible_arguments


def stage_names(program: Program) -> frozenset[str]:
    """Its values, carried ones too, its arguments, the coordinates of its grid and its loops, and every letter."""
    statements = list(walk.statements(program.body))
    values = {value for stmt in statements for value in walk.defined(stmt)}
    loops = (stmt for stmt in statements if isinstance(stmt, tile.ForWindow | tile.ForRange))
    values |= {carry.inner for loop in loops for carry in loop.carried}
    return frozenset(value.name for value in values) | own_names(program) | loop_names(program)


def loop_names(program: Program) -> frozenset[str]:
    """The windows and integers of its loops."""
    statements = list(walk.statements(program.body))
    windows = {stmt.window.name for stmt in statements if isinstance(stmt, tile.ForWindow)}
    return frozenset(windows | {stmt.name for stmt in statements if isinstance(stmt, tile.ForRange)})


def own_names(program: Program) -> frozenset[str]:
    """What no tile can be called in code: arguments, letters, static numbers, the grid's coordinates and names."""
    values = [value for stmt in walk.statements(program.body) for value in walk.defined(stmt)]
    letters = {index.name for index in program.indices} | {index.name for value in values for index in value.indices}
    arguments = {argument.name for argument in possible_arguments(program)}
    arguments |= {tensor_map_name(tensor.name) for tensor in program.tensors}
    numbers = {name for name, _ in (*program.numbers, *program.where)}
    return frozenset(arguments | letters | numbers | {axis.name for axis in program.grid})
