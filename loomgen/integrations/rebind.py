"""Copies of functions that find another object under one global name; originals and modules stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from inspect import unwrap
from types import CellType, FunctionType
from typing import Any

_MODULE_NAME = "__name__"


def reads_global(function: Callable[..., Any], name: str) -> bool:
    """Whether ``function``, below its decorators, has a global ``name`` that it reads."""
    inner = unwrap(function)
    return isinstance(inner, FunctionType) and name in inner.__code__.co_names and name in inner.__globals__


def rebound(function: FunctionType, name: str, value: object) -> FunctionType:
    """``function``, with all its decorators, whose innermost finds ``value`` under the global ``name``.

    Raises TypeError where a decorator does not keep what it wraps in its closure.
    """
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is None:
        # Without its module's name no compiler of torch takes the globals for those of the module.
        scope = {key: x for key, x in function.__globals__.items() if key != _MODULE_NAME}
        return _copy(function, {**scope, name: value}, function.__closure__)
    cells = function.__closure__ or ()
    if not any(cell.cell_contents is wrapped for cell in cells):
        raise TypeError(f"{function.__qualname__}: a decorator hides the function that reads {name}")
    inner = CellType(rebound(wrapped, name, value))
    return _copy(function, function.__globals__, tuple(inner if c.cell_contents is wrapped else c for c in cells))


def _copy(function: FunctionType, scope: dict[str, Any], closure: tuple[CellType, ...] | None) -> FunctionType:
    # Dynamo keeps what it compiled by code object, and that runs only among the globals it was compiled with.
    copy = FunctionType(function.__code__.replace(), scope, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    update_wrapper(copy, function)
    return copy
