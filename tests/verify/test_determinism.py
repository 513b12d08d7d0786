"""The determinism gate: equal bits pass, and each way in which a result may depend on something else is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import Tensor

from loomgen.errors import NoGpu
from loomgen.verify import OpCase, same_bits
from loomgen.verify.determinism import CHECKS, SHAPES, DeterminismRow, alone, in_small, verify_determinism
from loomgen.verify.fingerprint import digest, digests, fingerprint, fingerprints
from loomgen.verify.machines import Call, Emulator, Gpu, Results, make_call

PACK = OpCase(name="pack", lengths=(3, 0, 5), heads=(1, 2), head_dim=64)
REPEATS = 4


def honest(call: Call) -> dict[str, Tensor]:
    """Results in the shapes of the operator's, each token and sequence by itself."""
    inputs, given = call.inputs, call.given
    assert inputs.g is not None and inputs.initial_state is not None
    return {
        "o": inputs.v + given.do,
        "final_state": 2 * inputs.initial_state,
        "dq": -inputs.q,
        "dg": inputs.g * inputs.beta,
        "dh0": 3 * given.dht,
        "dA_log": inputs.g.sum((0, 1)),
    }


@dataclass
class Fake:
    """A machine whose runner is ``change`` of what an honest one gives."""

    change: Callable[[Fake, Call, int, dict[str, Tensor]], None] = lambda *_: None
    memory: float = 0.0
    n_running: int = 0
    n_runs: int = 0
    shared: dict[str, Tensor] = field(default_factory=dict)

    def place(self, call: Call) -> Call:
        return call

    def run(self, call: Call, repeat: int) -> Results:
        self.n_runs += 1
        results = honest(call)
        self.change(self, call, repeat, results)
        return results

    def spoil(self) -> None:
        self.memory = float("nan")

    def at_once(self, jobs: Sequence[Callable[[], Tensor]]) -> list[Tensor]:
        self.n_running = len(jobs)
        found = [job() for job in jobs]
        self.n_running = 1
        return found


def rows_of(machine: Fake, case: OpCase = PACK) -> dict[str, DeterminismRow]:
    told: list[tuple[str, str]] = []

    def on_check(name: str, check: str) -> None:
        told.append((name, check))
        assert machine.n_runs > len(told)  # the first call, and the check's own

    rows = verify_determinism(machine, (case,), repeats=REPEATS, on_check=on_check)
    assert told == [(case.name, check) for check in CHECKS] == [(row.case, row.check) for row in rows]
    return {row.check: row for row in rows}


def failing(rows: dict[str, DeterminismRow]) -> dict[str, tuple[str, ...]]:
    return {check: row.tensors for check, row in rows.items() if not row.ok}


@pytest.mark.parametrize("case", [PACK, replace(PACK, lengths=(4, 4), packed=False), replace(PACK, slack=2)])
def test_equal_bits_pass(case: OpCase) -> None:
    rows = rows_of(Fake(nothing_in_slack), case)
    assert failing(rows) == {} and all(row.finite for row in rows.values())
    n_sequences = len(case.lengths)
    assert [row.runs for row in rows.values()] == [REPEATS, REPEATS, 2 * REPEATS, n_sequences]
    assert len({row.digest for row in rows.values()}) == 1


def nothing_in_slack(machine: Fake, call: Call, repeat: int, results: dict[str, Tensor]) -> None:
    end = sum(call.case.lengths)
    for name in ("o", "dq", "dg"):
        if call.case.packed:
            results[name][:, end:] = 0
    assert call.inputs.g is not None
    results["dA_log"] = call.inputs.g.nan_to_num().sum((0, 1))


def flips_a_bit_in_the_third(machine: Fake, call: Call, repeat: int, results: dict[str, Tensor]) -> None:
    if repeat == 3:
        results["dq"].view(torch.int16).flatten()[17] ^= 1


def test_one_bit_in_one_repeat_is_found() -> None:
    rows = rows_of(Fake(flips_a_bit_in_the_third))
    assert failing(rows) == dict.fromkeys(("repeats", "spoiled", "streams"), ("dq",))
    assert [row.different for row in rows.values()] == [1, 1, 2, 0]


def reads_uninitialised_memory(machine: Fake, call: Call, repeat: int, results: dict[str, Tensor]) -> None:
    results["dg"][:, :1] += machine.memory


def test_a_read_of_uninitialised_memory_is_found() -> None:
    rows = rows_of(Fake(reads_uninitialised_memory))
    assert failing(rows)["spoiled"] == ("dg",) and rows["repeats"].ok
    assert rows["spoiled"].different == REPEATS


def test_results_that_are_the_same_nan_each_time_are_no_pass() -> None:
    rows = rows_of(Fake(reads_uninitialised_memory, memory=float("nan")))
    assert not any(row.ok or row.finite for row in rows.values())


def test_what_is_allocated_after_the_emulator_spoiled_memory_is_nan() -> None:
    machine, most = Emulator("sm_100a"), 0.0
    for _ in range(20):
        machine.spoil()
        most = max(most, float(torch.empty(2**12).isnan().float().mean()))
    assert most > 0.9


def depends_on_the_place(machine: Fake, call: Call, repeat: int, results: dict[str, Tensor]) -> None:
    results["dg"][:, -1:] *= 1 + 2.0**-20 * (len(call.case.lengths) - 1)


def test_a_result_that_depends_on_the_place_in_the_pack_is_found() -> None:
    rows = rows_of(Fake(depends_on_the_place))
    assert failing(rows) == {"alone": ("dg",)}
    assert (rows["alone"].runs, rows["alone"].different) == (3, 1)


def shares_memory_with_a_neighbour(machine: Fake, call: Call, repeat: int, results: dict[str, Tensor]) -> None:
    if machine.n_running > 1:
        results["final_state"] += machine.shared.get("state", torch.zeros(1))
    machine.shared["state"] = results["final_state"]


def test_memory_that_two_streams_share_is_found() -> None:
    assert failing(rows_of(Fake(shares_memory_with_a_neighbour))) == {"streams": ("final_state",)}


def test_a_sequence_alone_has_its_own_tokens_and_states() -> None:
    call = make_call(PACK, 0)
    last = alone(call, 2)
    assert last.case.lengths == (5,) and last.inputs.cu_seqlens is None
    assert torch.equal(last.inputs.q, call.inputs.q[:, 3:]) and torch.equal(last.given.do, call.given.do[:, 3:])
    assert last.inputs.initial_state is not None and call.inputs.initial_state is not None
    assert torch.equal(last.inputs.initial_state[0], call.inputs.initial_state[2])
    assert torch.equal(last.given.dht[0], call.given.dht[2])
    assert alone(call, 1).inputs.q.shape == (1, 0, 1, 64)


def test_a_fingerprint_sees_every_bit_and_place() -> None:
    x = torch.randn(5, 7)
    seen = {int(fingerprint(x))}
    for i in range(x.numel()):
        for bit in (0, 15, 30):
            y = x.clone()
            y.view(torch.int32).flatten()[i] ^= 1 << bit
            seen.add(int(fingerprint(y)))
        z = x.flatten().clone()
        z[[0, i]] = z[[i, 0]]
        seen.add(int(fingerprint(z)))
    assert len(seen) == 1 + 35 * 3 + 34
    assert int(fingerprint(x.T)) == int(fingerprint(x.T.contiguous())) != int(fingerprint(x))


def test_a_fingerprint_is_the_same_in_one_block_and_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = [torch.randn(1000), torch.zeros(0), torch.randn(3, 5).bfloat16(), torch.tensor([0.0, -0.0])]
    whole = fingerprints(tensors)
    monkeypatch.setattr("loomgen.verify.fingerprint._BLOCK", 7)
    assert torch.equal(fingerprints(tensors), whole)
    assert len(digest(whole)) == 16 and digest(whole) != digest(whole.flip(0))
    assert digests(dict(zip("abcd", tensors, strict=True))) == {
        name: f"{int(fingerprint(x)) % 2**64:016x}" for name, x in zip("abcd", tensors, strict=True)
    }


def test_the_shapes_are_twelve_and_cover_what_the_operator_takes() -> None:
    assert len(SHAPES) >= 12
    rows = [len(case.lengths) * case.heads[1] * case.head_dim for case in SHAPES]
    assert min(rows) <= 32 * 132 and any(32 * 132 < n < 64 * 79 for n in rows) and max(rows) >= 64 * 79
    for flag in ("head_dim", "dtype", "packed", "normalise", "initial_state", "state_v_first", "negative"):
        assert len({getattr(case, flag) for case in SHAPES}) == 2, flag
    assert {case.gates for case in SHAPES} >= {"usual", "strong", "none"}
    assert any(case.raw_gates for case in SHAPES) and any(case.slack for case in SHAPES)


def test_the_operator_in_the_emulator_passes() -> None:
    case = replace(in_small(next(case for case in SHAPES if case.raw_gates)), head_dim=64, lengths=(3, 0, 66))
    rows = verify_determinism(Emulator("sm_100a"), (case,), repeats=1)
    assert [(row.check, row.tensors, row.ok) for row in rows] == [(check, (), True) for check in CHECKS]


def test_a_sequence_in_two_parts_has_the_bits_of_one_pass_there_and_back() -> None:
    """Cut at a multiple of 64 tokens; the state goes on, its gradient comes back."""
    call, machine = make_call(OpCase(name="whole", lengths=(96,), head_dim=64), 0), Emulator("sm_100a")
    whole = machine.run(call, 0)
    head, tail = (tokens_of(call, *ends) for ends in ((0, 64), (64, 96)))
    state = machine.run(head, 0)["final_state"]
    later = machine.run(replace(tail, inputs=replace(tail.inputs, initial_state=state)), 0)
    earlier = machine.run(replace(head, given=replace(head.given, dht=later["dh0"])), 0)
    for name in ("o", "dq", "dk", "dv", "dg", "dbeta"):
        assert same_bits(torch.cat([earlier[name], later[name]], dim=1), whole[name]), name
    assert same_bits(later["final_state"].contiguous(), whole["final_state"].contiguous())
    assert same_bits(earlier["dh0"].contiguous(), whole["dh0"].contiguous())


def tokens_of(call: Call, begin: int, end: int) -> Call:
    inputs = call.inputs
    parts = {name: getattr(inputs, name)[:, begin:end] for name in ("q", "k", "v", "g", "beta")}
    return Call(
        case=replace(call.case, lengths=(end - begin,), packed=False),
        inputs=replace(inputs, **parts, cu_seqlens=None),
        given=replace(call.given, do=call.given.do[:, begin:end]),
    )


def test_without_a_gpu_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(NoGpu, match="--backend emulate"):
        Gpu()
