"""Kind 8, two rows of 1,024 tokens, 16 heads of dim 64: elsewhere reads out of bounds made gradients NaN."""

from __future__ import annotations

from loomgen import golden
from loomgen.verify import OpCase, relative_l2
from loomgen.verify.op import OP_BOUNDS
from tests.failures.emulated import emulated, make_call

CASE = OpCase(
    name="2 x 1024, 16 heads", lengths=(1024, 1024), heads=(16, 16), head_dim=64, packed=False, initial_state=False
)


def test_no_access_leaves_its_tensor_and_gradients_are_right() -> None:
    """The emulator faults at the first access outside a tensor, and at the first read of what nobody wrote."""
    call = make_call(CASE, 0)
    found = emulated(call)
    assert all(x.isfinite().all() for x in found.values())
    inputs, given = call.inputs, call.given
    exact = golden.chunk_gated_delta_rule_backward(
        inputs.q, inputs.k, inputs.v, inputs.g, inputs.beta, given.do, given.dht, use_qk_l2norm=True
    )
    for name, wanted in (("dq", exact.q), ("dk", exact.k), ("dv", exact.v), ("dg", exact.g), ("dbeta", exact.beta)):
        assert relative_l2(found[name], wanted) <= OP_BOUNDS[name], name
