"""The three arithmetics a program can be interpreted in; they share one interface."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
import torch

from loomgen.errors import InternalError
from loomgen.interp import functions
from loomgen.interp.rounding import round_to
from loomgen.interp.tiles import Array
from loomgen.ir.order import M16N8K8, M16N8K16, ContractOrder, ReduceOrder
from loomgen.ir.tile import Function
from loomgen.ir.types import DType

_FLOAT64_FUNCTIONS: Mapping[Function, Callable[..., Array]] = {
    Function.EXP2: np.exp2,
    Function.EXP: np.exp,
    Function.LOG: np.log,
    Function.RSQRT: lambda x: 1.0 / np.sqrt(x),
    Function.SQRT: np.sqrt,
    Function.SIGMOID: lambda x: 1.0 / (1.0 + np.exp(-x)),
    Function.FMA: lambda a, b, c: a * b + c,
    Function.MIN: np.fmin,
    Function.MAX: np.fmax,
    Function.ABS: np.abs,
}

_FP32_FUNCTIONS: Mapping[Function, Callable[..., Array]] = {
    Function.EXP2: functions.exp2,
    Function.EXP: functions.exp,
    Function.LOG: functions.log,
    Function.RSQRT: functions.rsqrt,
    Function.SQRT: np.sqrt,
    Function.SIGMOID: functions.sigmoid,
    Function.FMA: functions.fma,
    Function.MIN: functions.minimum,
    Function.MAX: functions.maximum,
    Function.ABS: np.abs,
}


class Arithmetic(ABC):
    """Floating arithmetic on arrays of ``carrier``; narrower types are held as values exact in it."""

    carrier: type[np.floating]

    @abstractmethod
    def round(self, x: Array, dtype: DType) -> Array:
        """``x`` (float32 or float64) converted to the floating ``dtype``, held in the carrier."""

    @abstractmethod
    def call(self, function: Function, args: tuple[Array, ...]) -> Array:
        """``function`` of floating arguments, element by element."""

    @abstractmethod
    def contract(self, a: Array, b: Array, seed: Array | None, operand: DType, order: ContractOrder | None) -> Array:
        """``a`` [M, K] times ``b`` [N, K] over K, on top of ``seed`` [M, N]; ``operand`` is both operands' type.

        ``order`` is what the plan chose; None stands for the operand type's default.
        """

    @abstractmethod
    def running_sum(self, x: Array, axis: int) -> Array:
        """Inclusive sums of ``x`` along ``axis``, first to last."""

    def total(self, x: Array, order: ReduceOrder | None) -> Array:
        """The sum of ``x`` along its last axis; ``order`` is what the plan chose, None stands for ascending."""
        return np.asarray(self.running_sum(x, axis=-1)[..., -1])

    @abstractmethod
    def unit_lower_inverse(self, lower: Array) -> Array:
        """(I + L)^-1 of the strictly lower part L of ``lower`` [M, M]."""

    @abstractmethod
    def diagonal_inverses(self, blocks: Array) -> Array:
        """The same of every block of ``blocks`` [R, 16, 16], in the order of sums of `invert_unit_lower_16`."""


class Float64(Arithmetic):
    """What a program means: float64 throughout, conversions between floating types are the identity."""

    carrier = np.float64

    def round(self, x: Array, dtype: DType) -> Array:
        return np.asarray(x, dtype=np.float64)

    def call(self, function: Function, args: tuple[Array, ...]) -> Array:
        return np.asarray(_FLOAT64_FUNCTIONS[function](*args))

    def contract(self, a: Array, b: Array, seed: Array | None, operand: DType, order: ContractOrder | None) -> Array:
        product = np.asarray(a @ b.T)
        return product if seed is None else np.asarray(seed + product)

    def running_sum(self, x: Array, axis: int) -> Array:
        return np.cumsum(x, axis=axis)

    def unit_lower_inverse(self, lower: Array) -> Array:
        strict = torch.from_numpy(np.tril(lower, -1))
        identity = torch.eye(lower.shape[-1], dtype=torch.float64).expand_as(strict)
        inverse = torch.linalg.solve_triangular(identity + strict, identity, upper=False, unitriangular=True)
        return np.asarray(inverse.numpy())

    def diagonal_inverses(self, blocks: Array) -> Array:
        return self.unit_lower_inverse(blocks)


class Rounded(Float64):
    """What the written roundings alone cost: float64 in between, every conversion, load and store rounds."""

    def round(self, x: Array, dtype: DType) -> Array:
        return round_to(x, dtype)


class Ordered(Arithmetic):
    """What a kernel computes, bit for bit: fp32 operations, every sum in its recorded order."""

    carrier = np.float32

    def round(self, x: Array, dtype: DType) -> Array:
        return np.asarray(x if dtype is DType.F32 else round_to(x, dtype), dtype=np.float32)

    def call(self, function: Function, args: tuple[Array, ...]) -> Array:
        return np.asarray(_FP32_FUNCTIONS[function](*args))

    def contract(self, a: Array, b: Array, seed: Array | None, operand: DType, order: ContractOrder | None) -> Array:
        chosen = order or _default_order(operand)
        return _fused_sum(a, b, seed) if chosen is None else _sum_in_order(a, b, seed, chosen)

    def running_sum(self, x: Array, axis: int) -> Array:
        return np.cumsum(x, axis=axis, dtype=np.float32)

    def total(self, x: Array, order: ReduceOrder | None) -> Array:
        partials = order.partials if order else (tuple(range(x.shape[-1])),)
        sums = [self.running_sum(x[..., list(partial)], axis=-1)[..., -1] for partial in partials]
        n_each = len(sums) // (order.parts if order else 1)
        parts = [_in_pairs(sums[at : at + n_each]) for at in range(0, len(sums), n_each)]
        return np.asarray(reduce(operator.add, parts))

    def unit_lower_inverse(self, lower: Array) -> Array:
        raise InternalError("interp", "an inverse has no order of its own: lower it before the ordered mode")

    def diagonal_inverses(self, blocks: Array) -> Array:
        return functions.diagonal_inverse_16(blocks)


def _in_pairs(sums: list[Array]) -> Array:
    while len(sums) > 1:
        sums = [np.asarray(a + b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]


def _default_order(operand: DType) -> ContractOrder | None:
    if operand is DType.TF32:
        return M16N8K8
    return M16N8K16 if operand.is_half else None


def _fused_sum(a: Array, b: Array, seed: Array | None) -> Array:
    """The sum of fp32 operands: one fused multiply-add an element of K, ascending."""
    total = np.zeros((a.shape[0], b.shape[0]), dtype=np.float32) if seed is None else seed
    for k in range(a.shape[1]):
        total = functions.fma(a[:, k, None], b[None, :, k], total)
    return total


def _sum_in_order(a: Array, b: Array, seed: Array | None, order: ContractOrder) -> Array:
    """The sum that :class:`ContractOrder` describes."""
    extent = a.shape[1]
    if extent % (order.parts * order.block):
        raise InternalError("interp", f"a sum over {extent} elements does not divide into {order}")
    part = extent // order.parts
    total = _sum_of_part(a[:, :part], b[:, :part], seed, order)
    for begin in range(part, extent, part):
        total = total + _sum_of_part(a[:, begin : begin + part], b[:, begin : begin + part], None, order)
    return total


def _sum_of_part(a: Array, b: Array, seed: Array | None, order: ContractOrder) -> Array:
    left = np.ascontiguousarray(a.T, dtype=np.float64)[:, :, None]
    right = np.ascontiguousarray(b.T, dtype=np.float64)[:, None, :]
    shape = (a.shape[0], b.shape[0])
    total = np.zeros(shape, dtype=np.float32) if seed is None else seed
    product = np.empty(shape)
    for begin in range(0, a.shape[1], order.block):
        block = np.zeros(shape)
        for slot in order.slots:
            block += np.multiply(left[begin + slot], right[begin + slot], out=product)
        total = (total + block).astype(np.float32)
    return total
