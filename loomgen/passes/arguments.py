"""The kernel's argument plan: which parameters its code needs, in which order."""

from __future__ import annotations

from dataclasses import replace

from loomgen.errors import InternalError
from loomgen.ir.device import CStmt, mentioned
from loomgen.ir.kernel import Argument, ArgumentKind, TensorBox, tensor_map_name
from loomgen.ir.plan import BoxIn, BoxOut, Plan, SharedBuffer
from loomgen.ir.tile import Program, Tensor
from loomgen.ir.types import DType
from loomgen.passes.lower.addresses import stride_argument
from loomgen.passes.lower.cxx_words import code_name
from loomgen.passes.trace import leaves
from loomgen.registry.tables import WINDOW_TABLES

_TABLES: tuple[tuple[str, tuple[str | int, ...]], ...] = tuple(
    zip(WINDOW_TABLES, (("N + 1",), ("N + 1",), ("NC",), ("NC",)), strict=True)
)
"""The tables behind windows, i32."""


def possible_arguments(program: Program) -> tuple[Argument, ...]:
    """Everything that the program's code could mention: tensors, tables, dims, strides, scalars."""
    tensors = tuple(_tensor(tensor) for tensor in program.tensors)
    tables = tuple(
        Argument(name=name, kind=ArgumentKind.TABLE, dtype=DType.I32, shape=shape, access="in")
        for name, shape in _TABLES
    )
    dims = tuple(Argument(name=name, kind=ArgumentKind.DIM, dtype=DType.I32) for name in program.runtime_dims)
    strides = tuple(argument for tensor in program.tensors for argument in _strides(tensor))
    scalars = tuple(
        Argument(name=scalar.name, kind=ArgumentKind.SCALAR, dtype=scalar.dtype) for scalar in program.scalars
    )
    return (*tensors, *tables, *dims, *strides, *scalars)


def needed_arguments(possible: tuple[Argument, ...], body: tuple[CStmt, ...]) -> tuple[Argument, ...]:
    """Those that the code mentions; the tensors always, by pointer or by map, since they are the stage's interface."""
    used = frozenset().union(*(mentioned(stmt) for stmt in body))
    mapped = frozenset(argument.box.tensor for argument in possible if argument.box is not None)
    is_tensor = {a.name for a in possible if a.kind is ArgumentKind.TENSOR and a.name not in mapped}
    return tuple(a for a in possible if a.name in is_tensor or code_name(a.name) in used)


def tensor_maps(kernel: Plan) -> tuple[Argument, ...]:
    """One for each tensor that moves by boxes."""
    found: dict[str, Argument] = {}
    for leaf in (leaf for op in kernel.body for leaf in leaves(op)):
        match leaf:
            case BoxIn():
                argument = _map(leaf.source.tensor, leaf.dst.buffer)
            case BoxOut():
                argument = _map(leaf.tensor, leaf.src.buffer)
            case _:
                continue
        if found.setdefault(argument.name, argument) != argument:
            raise InternalError("lower", f"{argument.name} has boxes of two shapes")
    return tuple(found.values())


def _map(tensor: Tensor, buffer: SharedBuffer) -> Argument:
    box = TensorBox(tensor=tensor.name, rows=buffer.rows, cols=buffer.panel_cols, swizzle=buffer.swizzle)
    pointer = _tensor(tensor)
    return replace(pointer, name=tensor_map_name(tensor.name), kind=ArgumentKind.TENSOR_MAP, box=box)


def _tensor(tensor: Tensor) -> Argument:
    return Argument(
        name=tensor.name,
        kind=ArgumentKind.TENSOR,
        dtype=tensor.dtype,
        shape=tensor.shape,
        access=tensor.access.value,
        optional=tensor.optional,
    )


def _strides(tensor: Tensor) -> tuple[Argument, ...]:
    rank = len(tensor.shape)
    free = {"contiguous": 0, "rows": rank - 1, "free": rank}[tensor.strides]
    return tuple(
        Argument(
            name=stride_argument(tensor, dim), kind=ArgumentKind.STRIDE, dtype=DType.I64, source=(tensor.name, dim)
        )
        for dim in range(free)
    )
