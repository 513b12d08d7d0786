"""Errors: what a user did wrong (:class:`SpecError`), what is missing, and what we did wrong (:class:`InternalError`).

Those that the command tells apart have a base here, so that to report one imports nothing of what raises it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A place in a spec file; lines and columns count from 1, ``end_col`` is exclusive."""

    path: str
    line: int
    col: int
    end_col: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.col}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One mistake in a spec: its code (``LG021``), place, message, hint and how it came about."""

    code: str
    message: str
    span: Span
    hint: str | None = None
    chain: tuple[str, ...] = field(default=())


class LoomgenError(Exception):
    """Base of every error that loomgen raises on purpose."""


class SpecError(LoomgenError):
    """One or more mistakes in spec files, all that a run could find."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.span}: error {d.code}: {d.message}" for d in self.diagnostics))


class MissingRequirement(LoomgenError):
    """This machine lacks what was asked for: a program, a package, a GPU; the message says how to get it."""


class NoGpu(MissingRequirement):
    """There is no GPU to run on."""


class KernelFault(LoomgenError):
    """A kernel did something wrong where it ran."""


class InternalError(LoomgenError):
    """An invariant of the compiler is broken: a fault of loomgen, never of a spec."""

    def __init__(self, where: str, message: str) -> None:
        self.where = where
        super().__init__(f"internal error in {where}: {message}")
