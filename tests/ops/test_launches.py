"""What is launched: the stages in order, on views of the caller's memory, after everything has been checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from loomgen.ops import chunk_gated_delta_rule, workspace_bytes
from loomgen.ops.library import EmulatedLibrary, emulated_library, registry_of
from loomgen.ops.workspace import RESULTS
from loomgen.verify import OpCase
from tests.ops.call import arguments, offsets
from tests.ops.recorder import Recorder

VIEWS = OpCase(name="views", lengths=(15, 65), heads=(1, 2), head_dim=64, views=True)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    library = Recorder()
    monkeypatch.setattr("loomgen.ops.chunk.library_of", lambda backend: library)
    return library


def test_stages_run_in_order_and_are_compiled_first(recorder: Recorder) -> None:
    chunk_gated_delta_rule(**arguments(VIEWS))
    assert [kernel.stage for kernel, _ in recorder.launched] == ["prep", "wy", "fwd_h", "fwd_o"]
    assert recorder.prepared == [kernel.name for kernel, _ in recorder.launched]


def test_views_and_states_of_both_layouts_pass_without_a_copy(recorder: Recorder) -> None:
    given = arguments(VIEWS)
    o, final = chunk_gated_delta_rule(**given)
    assert final is not None
    for stage, name, source in (
        ("prep", "q", given["q"]),
        ("prep", "k", given["k"]),
        ("fwd_h", "v", given["v"]),
        ("prep", "gate", given["g"]),
        ("prep", "step", given["beta"]),
        ("fwd_h", "h0", given["initial_state"]),
        ("fwd_h", "ht", final),
        ("fwd_o", "o", o),
    ):
        assert recorder.tensor(stage, name).data_ptr() == source.data_ptr(), name
    assert recorder.tensor("fwd_h", "h0").stride()[2:] == (1, 72)
    assert recorder.tensor("fwd_h", "ht").stride()[2:] == (1, 64)
    chunk_gated_delta_rule(**{**given, "state_v_first": True})
    assert recorder.launched[-2][1]["h0_stride2"] == 72


def test_without_a_gate_nothing_as_large_as_one_is_allocated(recorder: Recorder) -> None:
    chunk_gated_delta_rule(**{**arguments(VIEWS), "g": None})
    gate = recorder.tensor("prep", "gate")
    assert (tuple(gate.shape), gate.stride(), gate.untyped_storage().nbytes()) == ((80, 2), (0, 0), 4)


def test_flags_and_scale_reach_the_kernels(recorder: Recorder) -> None:
    given = arguments(VIEWS)
    chunk_gated_delta_rule(**{**given, "use_qk_l2norm_in_kernel": False, "output_final_state": False})
    chunk_gated_delta_rule(**{**given, "scale": 2, "initial_state": None})
    first, second = ([values for _, values in recorder.launched[i : i + 4]] for i in (0, 4))
    assert (first[0]["normalise"], first[2]["ht"], first[3]["scale"]) == (False, None, 0.125)
    assert (second[0]["normalise"], second[2]["h0"], second[3]["scale"]) == (True, None, 2.0)
    assert chunk_gated_delta_rule(**{**given, "output_final_state": False})[1] is None


def test_the_workspace_is_one_piece_of_the_size_that_a_caller_can_ask(recorder: Recorder) -> None:
    chunk_gated_delta_rule(**arguments(VIEWS))
    written = {
        argument.name: values[argument.name]
        for kernel, values in recorder.launched
        for argument in kernel.arguments
        if argument.access == "out" and argument.name not in RESULTS and values[argument.name] is not None
    }
    assert sorted(written) == ["A", "G", "beta", "h", "kn", "qn", "v_new"]
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in map(as_tensor, written.values())}
    asked = workspace_bytes(n_tokens=80, n_sequences=2, key_heads=1, value_heads=2, head_dim=64, n_chunks=3)
    assert list(storages.values()) == [asked]
    assert all(as_tensor(x).storage_offset() * as_tensor(x).element_size() % 256 == 0 for x in written.values())


def as_tensor(value: Any) -> torch.Tensor:
    assert isinstance(value, torch.Tensor)
    return value


RAW = replace(VIEWS, raw_gates=torch.bfloat16, raw_steps=torch.float16, negative=True)


def test_gates_of_raw_ones_go_to_prep_through_the_workspace(recorder: Recorder) -> None:
    given = arguments(RAW)
    chunk_gated_delta_rule(**given)
    assert [kernel.stage for kernel, _ in recorder.launched] == ["gates", "prep", "wy", "fwd_h", "fwd_o"]
    assert recorder.launched[0][0].name == "gates__c64_bf16_f16__base"
    for name, source in (("a", "g"), ("b", "beta"), ("A_log", "A_log"), ("dt_bias", "dt_bias")):
        assert recorder.tensor("gates", name).data_ptr() == given[source].data_ptr(), name
    for name in ("gate", "step"):
        made, read = recorder.tensor("gates", f"made_{name}"), recorder.tensor("prep", name)
        assert made.data_ptr() == read.data_ptr() and made.dtype is read.dtype is torch.float32, name
    assert recorder.launched[0][1]["largest_step"] == 2.0
    asked: dict[str, Any] = {"n_tokens": 80, "n_sequences": 2, "key_heads": 1, "value_heads": 2, "head_dim": 64}
    raw = workspace_bytes(**asked, n_chunks=3, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True)
    assert recorder.tensor("prep", "G").untyped_storage().nbytes() == raw
    assert raw == workspace_bytes(**asked, n_chunks=3) + 2 * 768  # 80 * 2 * 4 bytes, up to a multiple of 256


@pytest.mark.parametrize(
    ("case", "made", "kept"),
    [
        (replace(RAW, raw_steps=None, negative=False), "gate", ("step", "beta")),
        (replace(RAW, raw_gates=None), "step", ("gate", "g")),
    ],
)
def test_what_is_not_raw_is_read_where_it_lies(
    case: OpCase, made: str, kept: tuple[str, str], recorder: Recorder
) -> None:
    given = arguments(case)
    chunk_gated_delta_rule(**given)
    values = recorder.launched[0][1]
    name, source = kept
    assert values[f"made_{name}"] is None and values[{"step": "b", "gate": "a"}[name]] is None
    assert recorder.tensor("prep", name).data_ptr() == given[source].data_ptr()
    assert recorder.tensor("gates", f"made_{made}").data_ptr() == recorder.tensor("prep", made).data_ptr()


def test_the_workspace_counts_every_intermediate() -> None:
    a_token = 2 * (2 * 128 * 2) + 4 * 64 * 2  # qn and kn, A
    a_chunk = 4 * 128 * 128 * 2 + 4 * 128 * 64 * 2 + 2 * (4 * 64 * 4)  # h, v_new, G and beta
    exact = 65 * a_token + 3 * a_chunk
    assert workspace_bytes(n_tokens=65, n_sequences=2, key_heads=2, value_heads=4) == exact
    assert workspace_bytes(n_tokens=65, n_sequences=2, key_heads=2, value_heads=4, n_chunks=2) == exact - a_chunk
    assert workspace_bytes(n_tokens=0, key_heads=2, value_heads=4) == 0


def test_no_input_is_written() -> None:
    given = arguments(OpCase(name="small", lengths=(9,), heads=(1, 1), head_dim=64))
    before = {name: x.clone() for name, x in given.items() if isinstance(x, torch.Tensor)}
    chunk_gated_delta_rule(**given)
    assert all(torch.equal(given[name], x) for name, x in before.items())


@pytest.mark.parametrize("cu_seqlens", [None, offsets(0, 0)])
def test_a_call_may_have_no_token(cu_seqlens: torch.Tensor | None) -> None:
    n = 1 if cu_seqlens is None else len(cu_seqlens) - 1
    x = torch.zeros(1, 0, 2, 64, dtype=torch.bfloat16)
    state = torch.arange(n * 2 * 64 * 64.0).view(n, 2, 64, 64)
    o, final = chunk_gated_delta_rule(
        x, x, x, None, torch.zeros(1, 0, 2), None, state, output_final_state=True, cu_seqlens=cu_seqlens
    )
    assert o.shape == (1, 0, 2, 64)
    assert final is not None and torch.equal(final, state)


def test_a_gate_that_is_nan_makes_nan_of_its_head_from_its_token_on() -> None:
    given = arguments(OpCase(name="nan", lengths=(70, 9), heads=(1, 2), head_dim=64))
    clean, _ = chunk_gated_delta_rule(**given)
    g = given["g"].clone()
    g[0, 66, 1] = float("nan")
    o, final = chunk_gated_delta_rule(**{**given, "g": g, "output_final_state": True})
    assert final is not None
    assert o[0, 66:70, 1].isnan().all() and final[0, 1].isnan().all()
    o[0, 64:70, 1], clean[0, 64:70, 1] = 0, 0  # its chunk
    assert torch.equal(o, clean)


def test_the_final_state_of_an_empty_sequence_is_its_initial_state() -> None:
    given = arguments(OpCase(name="empty", lengths=(0, 5, 0), heads=(1, 1), head_dim=64))
    _, final = chunk_gated_delta_rule(**given)
    assert final is not None
    assert torch.equal(final[0], given["initial_state"][0]) and torch.equal(final[2], given["initial_state"][2])
    _, zero = chunk_gated_delta_rule(**{**given, "initial_state": None})
    assert zero is not None and zero[0].eq(0).all() and not zero[1].eq(0).all()


def test_a_kernel_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    class Stage:
        def __init__(self, entry: Any) -> None:
            self.entry = entry

    def committed_stages(libraries: Any, root: Any, cache: Any) -> list[Stage]:
        assert cache is None
        entries = [entry for library in libraries for entry in library]
        compiled.extend(entry.name for entry in entries)
        return [Stage(entry) for entry in entries]

    monkeypatch.setattr("loomgen.ops.library.committed_stages", committed_stages)
    library = EmulatedLibrary(registry=registry_of("sm_90a"), root=emulated_library().root)
    kernels = library.registry.kernels[:3]
    library.prepare(kernels[:2])
    library.prepare(kernels)
    assert sorted(compiled) == sorted(kernel.name for kernel in kernels)
    assert emulated_library("sm_90a") is emulated_library("sm_90a")
