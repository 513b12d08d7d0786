"""Packages that only an integration needs."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from loomgen.errors import MissingRequirement


class MissingPackage(MissingRequirement, ImportError):
    """A package that an integration is about is not there, or cannot be imported; the message says how to get it."""


def imported(module: str, extra: str) -> ModuleType:
    """``module``, which loomgen's ``extra`` brings; raises :class:`MissingPackage`."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackage(f"{module}: {error}; `pip install 'loomgen[{extra}]'` brings what it needs") from error
