"""Errors of the toolchain, apart from what raises them: reporting one must not import the rest."""

from __future__ import annotations

from loomgen.errors import LoomgenError


class BuildFailed(LoomgenError):
    """A compiler refused a source; the message is its output."""
