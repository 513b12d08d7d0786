"""The comments under a statement say what the code below computes, in the names that the code has."""

from __future__ import annotations

from loomgen.emit.cuda import emit_body
from tests.passes.gdn import lowered


def lines(stage: str) -> list[str]:
    return [line.strip() for line in emit_body(lowered(stage)).splitlines()]


def test_a_statement_of_one_operation_is_its_own_equation() -> None:
    body = lines("fwd_h")
    at = body.index("/// Sb[e,d] = TX(S[e,d])")
    assert not body[at + 1].startswith("//")


def test_a_product_that_goes_on_in_an_earlier_value_s_array_says_so() -> None:
    body = lines("chunk_grads")
    at = body.index("/// w1[i,d] = w0[i,d] + E[i,j] @ kc[j,d]")
    assert body[at + 1] == "// w0[i,d] += E[i,j] @ kc[j,d]"
