"""The ``loomgen`` command. Modules that commands need are imported when they run, so that ``loomgen doctor`` works
where half of them are missing."""

from loomgen.cli.app import app, main

__all__ = ["app", "main"]
