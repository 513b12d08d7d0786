"""Copies of functions with another global."""

from __future__ import annotations

from functools import wraps
from types import FunctionType
from typing import Any

import pytest

from loomgen.integrations.rebind import reads_global, rebound


def answer() -> int:
    return 1


def plain(x: int = 2, *, y: int = 3) -> int:
    return answer() + 10 * x + 100 * y


def decorated(function: Any) -> Any:
    @wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> tuple[int, int]:
        return answer(), function(*arguments, **options)

    return wrapper


class Hiding:
    function = staticmethod(plain)


def hidden(function: Any) -> Any:
    Hiding.function = function

    @wraps(function)
    def wrapper() -> int:
        return int(Hiding.function())

    return wrapper


def other() -> int:
    return 7


def copy(function: Any) -> Any:
    assert isinstance(function, FunctionType)
    return rebound(function, "answer", other)


def test_a_copy_finds_the_other_object_and_the_original_does_not() -> None:
    found = copy(plain)
    assert (found(), found(4, y=5), plain()) == (327, 547, 321)
    assert (found.__name__, found.__module__) == ("plain", __name__)


def test_only_the_innermost_function_is_changed() -> None:
    twice = decorated(decorated(plain))
    assert copy(twice)() == (1, (1, 327)) and twice() == (1, (1, 321))


def test_a_decorator_that_hides_what_it_wraps_is_refused() -> None:
    with pytest.raises(TypeError, match="plain: a decorator hides the function that reads answer"):
        copy(hidden(plain))


def test_a_name_is_read_where_it_is_a_global() -> None:
    assert reads_global(decorated(plain), "answer") and not reads_global(plain, "other")
    assert not reads_global(len, "answer")
