"""What a caller is told of the memory of training, against what is allocated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from loomgen.ops import TrainingBytes, chunk_gated_delta_rule, training_bytes, workspace_bytes
from loomgen.ops.autograd import differentiable
from loomgen.ops.workspace import SAVES, Save
from loomgen.runtime.tables import most_chunks
from loomgen.verify import OpCase
from tests.ops.call import arguments
from tests.ops.emulating_driver import parameter_sizes
from tests.ops.gradients import RAW, SMALL, cotangents, leaves, pulled
from tests.ops.recorder import Recorder
from tests.ops.test_device import arguments as given_to
from tests.ops.test_device import changed
from tests.ops.test_device_backward import Device
from tests.runtime.fake_driver import FakeDriver

TRAINING: dict[str, Any] = {"n_tokens": 16384, "n_sequences": 4, "key_heads": 16, "value_heads": 32, "n_chunks": 256}


class Bytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The sizes of all uint8 tensors that are made: only workspaces, and what is saved, are of bytes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        is_new = func in (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default)
        if is_new and made.dtype is torch.uint8 and made.device.type != "meta":
            self.made.append(made.nbytes)
        return made


def asked(case: OpCase, save: Save, **changes: Any) -> TrainingBytes:
    return training_bytes(
        **{
            "n_tokens": sum(case.lengths) + case.slack,
            "n_sequences": len(case.lengths),
            "key_heads": 1,
            "value_heads": 2,
            "head_dim": case.head_dim,
            "dtype": case.dtype,
            "n_chunks": sum(-(-length // 64) for length in case.lengths),
            "use_qk_l2norm_in_kernel": case.normalise,
            "use_gate_in_kernel": case.raw_gates is not None,
            "use_beta_sigmoid_in_kernel": case.raw_steps is not None,
            "save": save,
            **changes,
        }
    )


CASES = [
    SMALL,
    RAW,
    replace(SMALL, normalise=False, head_dim=128, dtype=torch.float16),
    replace(SMALL, slack=70),
    replace(RAW, raw_steps=None, negative=False),
]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    library = Recorder()
    monkeypatch.setattr("loomgen.ops.chunk.library_of", lambda backend: library)
    monkeypatch.setattr("loomgen.ops.chunk.is_watched", lambda call: False)  # not by Bytes
    return library


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("case", CASES)
def test_a_call_allocates_what_it_was_said_to(case: OpCase, save: Save, recorder: Recorder) -> None:
    with Bytes() as allocated:
        differentiated(case, save)
    told = asked(case, save)
    assert sorted(allocated.made) == sorted(told)
    kept = recorder.tensor("chunk_grads", "qn").untyped_storage()
    assert kept.nbytes() == told.saved == recorder.tensor("prep", "qn").untyped_storage().nbytes()


def differentiated(case: OpCase, save: Save) -> None:
    given = arguments(case)
    wanted = leaves(given)
    pulled(chunk_gated_delta_rule(**{**given, **wanted}, save=save), wanted, cotangents(case))


@pytest.fixture
def device() -> Device:
    return Device(FakeDriver(parameter_sizes(), {0: (10, 0)}))


@pytest.mark.parametrize("host_lengths", [True, False])
@pytest.mark.parametrize("save", SAVES)
@pytest.mark.parametrize("case", CASES)
def test_a_gpu_allocates_what_it_was_said_to(case: OpCase, save: Save, host_lengths: bool, device: Device) -> None:
    call = given_to(case) if host_lengths else given_to(case, cu_seqlens_cpu=None)
    wanted = leaves(call._asdict())
    do, dht = cotangents(case)
    with Bytes() as allocated:
        pulled(differentiable(device.runner, changed(call, **wanted), save), wanted, (do, dht))
    assert sorted(allocated.made) == sorted(asked(case, save, host_lengths=host_lengths))


def test_the_bytes_of_a_training_batch() -> None:
    minimal, states = (training_bytes(**TRAINING, use_qk_l2norm_in_kernel=True, save=save) for save in SAVES)
    h_and_v_new = 256 * 32 * (128 * 128 + 128 * 64) * 2
    of_keys = 2 * 16384 * 16 * (128 * 2 + 4)
    of_values = 16384 * 32 * 64 * 2 + 2 * 256 * 32 * 64 * 4  # A, G and beta
    assert minimal.saved == of_keys + of_values
    assert states.saved == minimal.saved + h_and_v_new
    assert (minimal.forward, states.forward) == (h_and_v_new, 0)
    assert minimal.backward == states.backward + h_and_v_new
    assert minimal.saved + minimal.forward == workspace_bytes(**TRAINING) + 2 * 16384 * 16 * 4


def test_without_a_number_of_chunks_it_is_that_of_the_most() -> None:
    sizes = {name: value for name, value in TRAINING.items() if name != "n_chunks"}
    assert training_bytes(**sizes) == training_bytes(**{**TRAINING, "n_chunks": most_chunks(16384, 4, 64)})
    assert training_bytes(**sizes).backward > training_bytes(**TRAINING).backward


def test_no_token_takes_no_memory() -> None:
    assert training_bytes(n_tokens=0, key_heads=1, value_heads=1) == (0, 0, 0)


def test_only_bytes_that_are_made_are_counted() -> None:
    with Bytes() as allocated:
        torch.empty(3, dtype=torch.uint8).view(1, 3)
        torch.empty_strided((4,), (1,), dtype=torch.uint8)
        torch.empty(3)
        torch.empty(5, dtype=torch.uint8, device="meta")
    assert allocated.made == [3, 4]
