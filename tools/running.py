"""How a tool ends: what it checked holds, does not, or could not be found out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from loomgen.errors import LoomgenError

OK, FAILED, COULD_NOT_RUN = 0, 1, 2


def exit_code(run: Callable[[], bool]) -> int:
    """``OK`` where ``run`` returns True, ``FAILED`` where it returns False. Where it raises LoomgenError, OSError or
    CalledProcessError ``COULD_NOT_RUN``, with the error on stderr."""
    try:
        holds = run()
    except (LoomgenError, OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return COULD_NOT_RUN
    return OK if holds else FAILED
