"""What the exit status of every command means."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The documented exit codes."""

    OK = 0
    CHECK_FAILED = 1  # the command did its work and what it checked does not hold
    BAD_INPUT = 2  # a mistake in a spec, a registry or on the command line
    MISSING_TOOL = 3  # a program or package is not installed
    INTERNAL = 4  # a fault of loomgen itself


EPILOG = (
    "Exit codes: 0 fine; 1 a check failed; 2 bad input (spec, registry, options); 3 a tool is missing;"
    " 4 a fault of loomgen."
)
