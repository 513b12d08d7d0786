"""All checks of a call, in the order in which their errors are reported."""

from __future__ import annotations

from loomgen.ops.arguments import Arguments, check_gates, check_inputs, check_state, check_types
from loomgen.ops.library import check_backend
from loomgen.ops.sequences import sequence_lengths


def checked_lengths(arguments: Arguments, backend: str | None, checked: bool) -> tuple[int, ...]:
    """The lengths of the sequences, after everything has been checked.

    Looks at every offset, and with ``checked`` at every gate that is not raw: waits for the GPU where they lie on one.
    """
    check_types(arguments)
    check_backend(backend, arguments.q.device)
    check_inputs(arguments)
    lengths = sequence_lengths(arguments)
    check_state(arguments, len(lengths))
    if checked and arguments.A_log is None:
        check_gates(arguments.g, sum(lengths))
    return lengths
