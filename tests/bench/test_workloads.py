"""Which rows there are, and what their inputs are."""

from __future__ import annotations

import pytest
import torch

from loomgen.bench.inputs import make_inputs
from loomgen.bench.reference import recurrent_reference
from loomgen.bench.workloads import Case, Pass, Suite, Workload, cases_of, ragged, select
from loomgen.golden import recurrent_gated_delta_rule
from tests.bench.fakes import case

CPU = torch.device("cpu")


def test_the_training_shapes_have_distinct_keys_and_hold_the_long_packs() -> None:
    keys = [case.key for case in cases_of(Suite.PERF)]
    assert len(keys) == len(set(keys)) == 31
    assert {"4x4096|8/16|dense", "ragged15=64197|16/32|packed", "1x131072|4/8|packed"} <= set(keys)


def test_realistic_gates_are_timed_on_some_of_them() -> None:
    assert len(cases_of(Suite.GATES)) == 5
    assert all(case.gate == "mamba" and case.timed for case in cases_of(Suite.GATES))


def test_accuracy_is_not_timed_and_has_states_on_the_ragged_pack() -> None:
    found = cases_of(Suite.ACCURACY)
    assert not any(case.timed for case in found)
    assert [case.with_state for case in found] == [True, True, False, False]


def test_filters_choose_by_part_of_a_key() -> None:
    assert len(select([Suite.PERF], ["ragged15"])) == 2
    assert [case.suite for case in select([Suite.PERF, Suite.GATES], ["1x65536"])] == [Suite.PERF, Suite.GATES]
    assert select([Suite.PERF], ["nothing"]) == ()


@pytest.mark.parametrize(("total", "count"), [(12894, 3), (64197, 15)])
def test_ragged_lengths_fill_the_pack_unevenly(total: int, count: int) -> None:
    lengths = ragged(total, count, seed=count)
    assert (sum(lengths), len(lengths)) == (total, count)
    assert len(set(lengths)) == count and min(lengths) > 0


def test_the_least_traffic_and_the_operations_of_a_forward() -> None:
    work = case(65, key_heads=1, value_heads=2).workload
    assert work.io_bytes() == 65 * (2 * 128 * 2 + 2 * 2 * 128 * 2 + 2 * 2 * 4)
    assert work.flops() == 2 * 2 * 10 * 2 * 64 * 64 * 128


def test_a_training_call_moves_and_computes_more() -> None:
    work = case(65, key_heads=1, value_heads=2).workload
    inputs, o = 2 * 128 * 2 + 2 * 128 * 2 + 2 * 2 * 4, 2 * 128 * 2
    assert work.io_bytes(Pass.FWDBWD) == 65 * (3 * inputs + 2 * o)
    assert work.flops(Pass.FWDBWD) == 2 * 2 * 35 * 2 * 64 * 64 * 128


def test_hard_rows_have_states_and_no_times() -> None:
    keys = [case.key.removeprefix("acc-ragged4=512|8/16|packed|") for case in cases_of(Suite.HARD)]
    assert keys == ["none", "logsigmoid16|correlated keys", "logsigmoid16|negative eigenvalues"]
    assert all(case.with_state and not case.timed for case in cases_of(Suite.HARD))


def test_rows_of_the_first_filter_come_first_and_once() -> None:
    keys = [case.key for case in select([Suite.PERF], ["1x4096", "ragged3", "4x4096|8/16", "|8/16|packed"])]
    assert keys[:4] == ["1x4096|4/12|packed", "ragged3=12894|8/16|packed", "ragged3=12894|16/32|packed",
                        "4x4096|8/16|dense"]  # fmt: skip
    assert len(keys) == len(set(keys))


def test_layouts_are_given_the_same_values() -> None:
    dense, packed = (
        Case(
            suite=Suite.PERF,
            workload=Workload(label="2x5", lengths=(5, 5), key_heads=1, value_heads=2, layout=layout),
        )
        for layout in ("dense", "packed")
    )
    x, y = make_inputs(dense, CPU), make_inputs(packed, CPU)
    assert x.q.shape == (2, 5, 1, 128) and y.q.shape == (1, 10, 1, 128)
    assert all(torch.equal(a.flatten(0, 1), b.flatten(0, 1)) for a, b in ((x.q, y.q), (x.v, y.v), (x.g, y.g)))
    assert x.cu_seqlens is None and y.cu_seqlens is not None and y.cu_seqlens.tolist() == [0, 5, 10]


@pytest.mark.parametrize("suite", [Suite.GATES, Suite.PERF])
def test_gates_are_logarithms_of_decays(suite: Suite) -> None:
    gate = cases_of(suite)[0].gate
    small = Case(suite=suite, workload=case(40).workload, gate=gate)
    g = make_inputs(small, CPU).g
    assert g.isfinite().all() and (g < 0).all() and len(set(g.flatten().tolist())) > 70


@pytest.mark.parametrize("with_state", [False, True])
def test_the_reference_is_the_golden_recurrence(with_state: bool) -> None:
    x = make_inputs(case(3, 0, 7, 5, with_state=with_state), CPU)
    o, state = recurrent_reference(x)
    wanted_o, wanted_state = recurrent_gated_delta_rule(
        x.q, x.k, x.v, x.g, x.beta, initial_state=x.initial_state, cu_seqlens=x.cu_seqlens, use_qk_l2norm=True
    )
    torch.testing.assert_close(o, wanted_o[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(state, wanted_state, rtol=1e-10, atol=1e-12)
