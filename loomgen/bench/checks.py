"""Whether results are right, and whether they are the same bits each time."""

from __future__ import annotations

from loomgen.bench.steps import Results, Step
from loomgen.verify import relative_l2, same_bits
from loomgen.verify.machines import spoil


def errors_of(results: Results, reference: Results) -> dict[str, float]:
    """Relative L2 errors of all ``results``; the ``reference`` has the tokens of a batch one after the other."""
    return {name: relative_l2(x.reshape(reference[name].shape), reference[name]) for name, x in results.items()}


def repeats_equal(step: Step, first: Results, repeats: int) -> bool:
    """``repeats`` further calls give the bits of ``first``, with NaN in the memory that the allocator has free."""
    device = first["o"].device
    for _ in range(repeats):
        spoil(device)
        found = step()
        if not all(same_bits(found[name], x) for name, x in first.items()):
            return False
    return True
