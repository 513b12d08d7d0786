"""A kernel's parameters: which it could have, and which its code needs."""

from __future__ import annotations

from loomgen.ir.device import Do, call, name
from loomgen.ir.kernel import ArgumentKind
from loomgen.passes.arguments import needed_arguments, possible_arguments
from tests.passes.gdn import kernel

POSSIBLE = possible_arguments(kernel("fwd_h").program)


def test_tensors_tables_dims_strides_and_scalars_in_this_order() -> None:
    kinds = [argument.kind for argument in POSSIBLE]
    assert kinds == sorted(kinds, key=list(ArgumentKind).index)
    names = {kind: [a.name for a in POSSIBLE if a.kind is kind] for kind in ArgumentKind}
    assert names[ArgumentKind.TENSOR] == ["kn", "v", "A", "G", "beta", "h0", "h", "v_new", "ht"]
    assert names[ArgumentKind.TABLE] == ["cu_seqlens", "seq_chunk_start", "chunk_start", "chunk_len"]
    assert names[ArgumentKind.STRIDE] == [
        "v_stride0",
        "v_stride1",
        *(f"{tensor}_stride{dim}" for tensor in ("h0", "ht") for dim in range(4)),
    ]


def test_tensors_are_always_needed_and_the_rest_where_it_is_mentioned() -> None:
    body = (Do(call=call("f", name("HV"), name("ht_stride2"), name("cu_seqlens"))),)
    needed = [argument.name for argument in needed_arguments(POSSIBLE, body)]
    assert needed == ["kn", "v", "A", "G", "beta", "h0", "h", "v_new", "ht", "cu_seqlens", "HV", "ht_stride2"]


def test_what_an_argument_is() -> None:
    by_name = {argument.name: argument for argument in POSSIBLE}
    assert (by_name["h0"].access, by_name["h0"].optional, by_name["h0"].shape) == ("in", True, ("N", "HV", 128, 128))
    assert (by_name["h"].access, by_name["h"].optional) == ("out", False)
    assert by_name["cu_seqlens"].shape == ("N + 1",)
    assert by_name["h0_stride2"].source == ("h0", 2)
