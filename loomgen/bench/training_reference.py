"""What a training call's results are compared with: the chunk form and its gradients in closed form, in float64.

The stages of :mod:`loomgen.golden`, composed on the device of the inputs. They are the recurrence's results and
gradients to some 1e-11, as the goldens' own tests show, and need a step a chunk where the recurrence needs one a token.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from torch import Tensor

from loomgen import golden
from loomgen.bench.inputs import Inputs, OutputGradients
from loomgen.bench.steps import Results


def training_reference(x: Inputs, given: OutputGradients) -> Results:
    """All that a training call with the final states returns, float64, tokens packed: [T, heads, dim].

    q and k are divided by their lengths; the scale is K^-1/2.
    """
    bounds = [0, *accumulate(x.lengths)]
    scale = x.q.shape[-1] ** -0.5
    q, k, v, g, beta, do = (t.flatten(0, 1).double() for t in (x.q, x.k, x.v, x.g, x.beta, given.o))
    with x.q.device:
        start, d_final = (_values_first(x, state) for state in (x.initial_state, given.state))
        found = golden.composed(q, k, v, g, beta, do, start, d_final, bounds, scale=scale)
        (qn, kn, G, *_), scanned = found.prepared, found.scanned
        o = golden.fwd_o(qn, kn, scanned.v_new, scanned.h, G, bounds, scale=scale)
    states: dict[str, Any] = {} if x.initial_state is None else {"dh0": found.reverse.dh0.mT}
    return {"o": o, "state": scanned.final_state.mT, **found.gradients._asdict(), **states}


def _values_first(x: Inputs, state: Tensor | None) -> Tensor:
    """A state [N, HV, K, V], None for zeros, as [N, HV, V, K] float64."""
    if state is not None:
        return state.double().mT
    shape = (len(x.lengths), x.v.shape[2], x.v.shape[3], x.q.shape[3])
    return x.v.new_zeros(shape, dtype=x.v.double().dtype)
