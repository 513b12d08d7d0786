"""What rendering asks of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from loomgen.ir.kernel import Argument, KernelSpec, Launch
from loomgen.target import Target


class Lowered(Protocol):
    """A kernel that the passes have brought to where it can be printed."""

    @property
    def launch(self) -> Launch: ...

    @property
    def arguments(self) -> tuple[Argument, ...]: ...


LoweredT = TypeVar("LoweredT", bound=Lowered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler(Generic[LoweredT]):
    """``lower`` runs the passes; ``emit_body`` prints the kernel's signature and statements as CUDA."""

    lower: Callable[[KernelSpec, Target], LoweredT]
    emit_body: Callable[[LoweredT], str]
