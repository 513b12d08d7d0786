"""Random inputs: what they hold, and comparison bit by bit."""

from __future__ import annotations

import torch

from loomgen.verify import make_problem
from loomgen.verify.problem import LOWEST_GATE


def test_a_problem_is_a_function_of_its_seed() -> None:
    one, same, other = (make_problem((3, 0, 2), (1, 2), seed) for seed in (0, 0, 1))
    for name, tensor in same.expected.items():
        assert torch.equal(one.expected[name].nan_to_num(9), tensor.nan_to_num(9)), name
    assert not torch.equal(one.expected["o"], other.expected["o"])


def test_dtypes_and_shapes_of_what_stages_write() -> None:
    problem = make_problem((65, 0), (1, 2), seed=0)
    assert problem.outputs == {
        "made_gate": (torch.float32, (65, 2)),
        "made_step": (torch.float32, (65, 2)),
        "qn": (torch.bfloat16, (65, 1, 128)),
        "kn": (torch.bfloat16, (65, 1, 128)),
        "G": (torch.float32, (2, 2, 64)),
        "beta": (torch.float32, (2, 2, 64)),
        "A": (torch.bfloat16, (65, 2, 64)),
        "u": (torch.bfloat16, (65, 2, 128)),
        "w": (torch.bfloat16, (65, 2, 128)),
        "h": (torch.bfloat16, (2, 2, 128, 128)),
        "v_new": (torch.bfloat16, (2, 2, 128, 64)),
        "ht": (torch.float32, (2, 2, 128, 128)),
        "o": (torch.bfloat16, (65, 2, 128)),
        "tail": (torch.bfloat16, (135, 2, 128)),
        "da": (torch.bfloat16, (65, 2)),
        "db": (torch.bfloat16, (65, 2)),
        "dA_log_parts": (torch.float32, (2, 2)),
        "ddt_bias_parts": (torch.float32, (2, 2)),
        "dA_log": (torch.float32, (2,)),
        "ddt_bias": (torch.float32, (2,)),
        "q_rstd": (torch.float32, (65, 1)),
        "k_rstd": (torch.float32, (65, 1)),
        "dn": (torch.bfloat16, (65, 2, 128)),
        "dh": (torch.bfloat16, (2, 2, 128, 128)),
        "dx": (torch.bfloat16, (2, 2, 128, 64)),
        "dh0": (torch.float32, (2, 2, 128, 128)),
        "dq": (torch.bfloat16, (65, 1, 128)),
        "dk": (torch.bfloat16, (65, 1, 128)),
        "dv": (torch.bfloat16, (65, 2, 128)),
        "dg": (torch.float32, (65, 2)),
        "dbeta": (torch.float32, (65, 2)),
        "bounds": (torch.int32, (3,)),
        "seq_chunks": (torch.int32, (3,)),
        "starts": (torch.int32, (2,)),
        "lengths": (torch.int32, (2,)),
    }
    assert {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in problem.rounded().items()} == problem.outputs
    assert torch.isnan(problem.fresh(["o"])["o"]).all()


def test_some_gates_underflow_every_format() -> None:
    gate = make_problem((200,), (2, 4), seed=0).given["gate"]
    assert isinstance(gate, torch.Tensor)
    lowest = gate < LOWEST_GATE / 2
    assert 0.02 < lowest.float().mean() < 0.12
    assert ((gate[lowest] / LOWEST_GATE - 1).abs() < 0.01).all(), "but for the rounding of raw gates"
    assert (gate <= 0).all()


def test_without_a_start_state_there_is_none() -> None:
    assert make_problem((4,), (1, 1), seed=0, initial_state=False).given["h0"] is None
