"""What the passes make of a kernel, pass by pass, as text."""

from __future__ import annotations

from loomgen.emit.printer import print_function
from loomgen.errors import LoomgenError
from loomgen.ir.kernel import KernelSpec
from loomgen.ir.print_plan import print_layout, print_plan
from loomgen.ir.print_tile import print_program
from loomgen.passes.pipeline import PASSES, SPEC, InCode, LaidOut, Planned, Tiled, steps
from loomgen.target import Target

PASS_NAMES = (SPEC, *(step.name for step in PASSES))
"""What ``after`` can be; ``spec`` is before the first pass."""

_LEVELS = ("fuse_maps", "synchronise", "prune")
"""The passes after which a kernel stays in one IR no longer, or is done."""


class UnknownPass(LoomgenError):
    """A name that no pass has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no pass is called {name!r}; passes: {', '.join(PASS_NAMES)}")


def explain(kernel: KernelSpec, target: Target, after: str | None) -> str:
    """The kernel as the pass ``after`` leaves it; for None, the last form of each IR under a heading.

    Raises UnknownPass, and what the passes raise.
    """
    if after is None:
        states = dict(steps(kernel, target))
        return "\n".join(f"# after {name}\n\n{_printed(states[name])}" for name in _LEVELS)
    if after not in PASS_NAMES:
        raise UnknownPass(after)
    return _printed(next(state for name, state in steps(kernel, target) if name == after))


def _printed(state: Tiled) -> str:
    match state:
        case InCode():
            return print_function(state.device)
        case LaidOut():
            return print_layout(state.layout) + print_plan(state.plan)
        case Planned():
            return print_plan(state.plan)
        case _:
            return print_program(state.program)
