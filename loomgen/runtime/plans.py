"""Plans kept by what a call is: its lengths, by value, and whatever else decides its launches."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from torch import Tensor


class Plan(Protocol):
    """What a cache keeps; one that a CUDA graph has recorded is never dropped."""

    @property
    def captured(self) -> bool: ...


P = TypeVar("P", bound=Plan)

Lengths = Tensor | Sequence[int]


class PlanCache(Generic[P]):
    """The ``capacity`` plans that were used last, and every captured one. Threads may share it.

    Plans are found by the *values* of the lengths: a tensor's identity or address says nothing of what it holds now.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._plans: OrderedDict[Hashable, P] = OrderedDict()
        self._latest: P | None = None
        self._lock = threading.Lock()

    def get(self, lengths: Lengths, shape: Hashable, build: Callable[[], P]) -> P:
        """The plan for ``lengths`` (numbers, or an integer tensor on the CPU) and ``shape``, which holds all else that
        decides it: kernels, dims, dtypes, strides, scalars, which optional tensors are given. ``build`` makes it.
        """
        key = (_value_of(lengths), shape)
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._use(key, plan)
                return plan
        built = build()
        with self._lock:
            plan = self._plans.setdefault(key, built)
            self._use(key, plan)
            self._drop_oldest()
            return plan

    def _use(self, key: Hashable, plan: P) -> None:
        """Puts ``plan`` last. Where it is so already its key, a long one, is not hashed once more."""
        if plan is not self._latest:
            self._plans.move_to_end(key)
            self._latest = plan

    def __len__(self) -> int:
        return len(self._plans)

    def _drop_oldest(self) -> None:
        droppable = [key for key, plan in self._plans.items() if not plan.captured]
        for key in droppable[: max(0, len(droppable) - self._capacity)]:
            del self._plans[key]


def _value_of(lengths: Lengths) -> Hashable:
    if not isinstance(lengths, Tensor):
        return tuple(lengths)
    if lengths.device.type != "cpu":
        raise ValueError(f"lengths: on {lengths.device}, expected numbers that the host knows")
    return lengths.dtype, lengths.numpy().tobytes()
