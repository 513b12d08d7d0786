"""Collecting mistakes: one statement or section that fails does not hide the next one's mistakes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from loomgen.errors import Diagnostic, Span
from loomgen.spec.codes import Code


class Skip(Exception):
    """What is being read depends on something already reported: say nothing more about it."""


class Reject(Skip):
    """The statement or section being read is wrong; carries the diagnostic."""

    def __init__(self, code: Code, span: Span, message: str, hint: str | None = None) -> None:
        self.diagnostic = Diagnostic(code=code.value, message=message, span=span, hint=hint)
        super().__init__(message)


@dataclass(slots=True)
class Collector:
    """The diagnostics found so far, in the order found."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(self, code: Code, span: Span, message: str, hint: str | None = None) -> None:
        self.found.append(Diagnostic(code=code.value, message=message, span=span, hint=hint))

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Record what is rejected inside and go on after it."""
        try:
            yield
        except Reject as reject:
            self.found.append(reject.diagnostic)
        except Skip:
            pass


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to ``word``, or None when nothing is close."""
    close = difflib.get_close_matches(word, sorted(known), n=1)
    return close[0] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint naming the known word closest to ``word``, or None when nothing is close."""
    close = closest(word, known)
    return f"did you mean `{close}`?" if close else None
