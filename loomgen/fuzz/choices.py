"""What a generator decides, drawn from Hypothesis so that it can be replayed and shrunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Choices:
    """Draws that shrink to the first option, to no and to few."""

    draw: st.DrawFn

    def pick(self, options: Sequence[T]) -> T:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def chance(self, one_in: int) -> bool:
        """True once in ``one_in`` draws."""
        return self.draw(st.integers(0, one_in - 1)) == one_in - 1

    def count(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def sample(self, options: Sequence[T], size: int) -> tuple[T, ...]:
        """``size`` different options."""
        left = list(options)
        return tuple(left.pop(self.draw(st.integers(0, len(left) - 1))) for _ in range(size))
