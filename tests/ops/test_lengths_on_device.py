"""Calls whose lengths only the GPU knows: kernels make the window tables, and nothing is read back."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from loomgen.errors import LoomgenError
from loomgen.ops import workspace_bytes
from loomgen.ops.arguments import Arguments
from loomgen.ops.batch import bounded_batch
from loomgen.ops.checks import checked_lengths
from loomgen.ops.dispatch import SLACK, STAGES, TABLES
from loomgen.ops.forward import forward
from loomgen.ops.library import emulated_library, registry_of
from loomgen.ops.packed import call_sizes
from loomgen.registry import KernelEntry
from loomgen.verify import OpCase
from tests.ops.call import offsets
from tests.ops.emulating_driver import EmulatingDriver
from tests.ops.test_device import RAW, SMALL, arguments, changed, device, driver, emulated, n_plans, same
from tests.runtime.fake_driver import FakeDriver, Launch

__all__ = ["driver"]

I32, I64 = torch.int32, torch.int64


def on_device(case: OpCase = SMALL, **changes: Any) -> Arguments:
    return arguments(case, **{"cu_seqlens_cpu": None, **changes})


def launched_for(call: Arguments) -> tuple[Tensor, Tensor | None]:
    """The results of a second call of its kind, of kernels that know no more than their parameters."""
    assert call.cu_seqlens is not None
    n_tokens, n_sequences = call.q.shape[1], len(call.cu_seqlens) - 1
    dims = call_sizes(call, n_sequences, bounded_batch(n_tokens, n_sequences).n_chunks)
    on = device(EmulatingDriver(dims=dims))
    no_tokens = torch.empty_strided((n_sequences + 1,), call.cu_seqlens.stride(), dtype=call.cu_seqlens.dtype).zero_()
    on.run(changed(call, cu_seqlens=no_tokens))
    found = on.run(call)[:2]
    assert n_plans(on) == 1
    return found


CALLS = {
    "two sequences": on_device(),
    "i32 offsets": on_device(cu_seqlens=offsets(0, 3, 8, dtype=I32)),
    "slack": on_device(replace(SMALL, lengths=(3, 64), slack=70)),
    "no token in any sequence": on_device(replace(SMALL, lengths=(0, 0), slack=3)),
    "empty sequences, views": on_device(replace(SMALL, lengths=(0, 66, 0), views=True)),
    "f16, beta in bf16, no gate": on_device(
        replace(SMALL, dtype=torch.float16, step=torch.bfloat16, gates="none", slack=2)
    ),
    "raw gates and steps, slack": on_device(replace(RAW, lengths=(3, 64), slack=70)),
    "raw steps, views": on_device(replace(RAW, raw_gates=None, views=True, slack=2)),
    "no states": on_device(output_final_state=False, initial_state=None),
    "offsets with a stride": on_device(cu_seqlens=torch.stack([offsets(0, 3, 8)] * 2, dim=1)[:, 0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_bits_are_those_of_lengths_that_the_host_knows(name: str) -> None:
    call = CALLS[name]
    expected = emulated(call)
    assert same(launched_for(call), expected)
    assert same(forward(call, None, emulated_library())[:2], expected)


@pytest.mark.parametrize("values", [(0, 9, 4), (0, -1, 30), (2, 3, 8)])
def test_wrong_offsets_reach_no_memory_but_the_tensors(values: tuple[int, ...]) -> None:
    found = launched_for(on_device(cu_seqlens=offsets(*values)))
    inside = offsets(0, *(min(max(0, value), 8) for value in values[1:]))
    inside[2] = max(int(inside[1]), int(inside[2]))
    assert same(found, emulated(on_device(cu_seqlens=inside)))


def parameters_of(launch: Launch) -> dict[str, int]:
    """Addresses and integers by name."""
    kernel = entry_of(launch)
    return {
        argument.name: struct.unpack("<Q" if len(value) == 8 else "<i", value)[0]
        for argument, value in zip(kernel.arguments, launch.parameters, strict=True)
        if len(value) >= 4
    }


def entry_of(launch: Launch) -> KernelEntry:
    return next(kernel for kernel in registry_of("sm_100a").kernels if kernel.symbol == launch.symbol)


def test_tables_are_made_before_the_stages_and_the_slack_is_zeroed_after_them(driver: FakeDriver) -> None:
    call = on_device(replace(SMALL, lengths=(3, 64), slack=70))
    o, *_ = device(driver).run(call)
    assert [entry_of(launch).stage for launch in driver.launches] == [TABLES, *STAGES, SLACK]
    meta, prep, _, scan, _, slack = map(parameters_of, driver.launches)
    assert call.cu_seqlens is not None
    assert meta["offsets"] == call.cu_seqlens.data_ptr()
    assert (meta["T"], meta["NB"], meta["NC"], driver.launches[0].blocks) == (137, 3, 4, 2 * 3)
    assert (prep["chunk_start"], prep["chunk_len"]) == (meta["starts"], meta["lengths"])
    assert (scan["cu_seqlens"], scan["seq_chunk_start"]) == (meta["bounds"], meta["seq_chunks"])
    assert (slack["bounds"], slack["tail"]) == (meta["bounds"], o.data_ptr())
    assert [launch.blocks for launch in driver.launches[1:]] == [4, 4 * 2, 2 * 2 * 2, 4 * 2, 3 * 2]


def test_one_plan_holds_for_all_lengths(driver: FakeDriver) -> None:
    on = device(driver)
    for values in ((0, 3, 8), (0, 0, 0), (0, 8, 8)):
        on.run(on_device(cu_seqlens=offsets(*values)))
    assert n_plans(on) == 1
    on.run(on_device(cu_seqlens=offsets(0, 3, 8, dtype=I32)))
    on.run(on_device(cu_seqlens=offsets(0, 3, 5, 8), initial_state=None))
    assert n_plans(on) == 3


class NeverRead(Tensor):
    """Offsets whose contents no operation may see or copy."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func.__name__ not in {"tolist", "cpu", "item", "to", "numpy", "__index__"}, "the offsets are read"
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("warm", [False, True])
def test_the_offsets_are_never_read_back(warm: bool, driver: FakeDriver) -> None:
    on = device(driver)
    for _ in range(1 + warm):
        on.run(on_device(cu_seqlens=offsets(0, 3, 8).as_subclass(NeverRead)))
    with pytest.raises(AssertionError, match="the offsets are read"):
        checked_lengths(on_device(cu_seqlens=offsets(0, 3, 8).as_subclass(NeverRead)), None, True)


def test_a_graph_may_record_a_call_of_any_lengths(driver: FakeDriver) -> None:
    on = device(driver)
    on.run(on_device())
    driver.is_capturing = True
    on.run(on_device(cu_seqlens=offsets(0, 4, 8)))
    assert len(driver.launches) == 2 * (len(STAGES) + 2)
    with pytest.raises(LoomgenError, match="make it once before the capture"):
        on.run(on_device(cu_seqlens=offsets(0, 8), initial_state=None))


def test_the_workspace_holds_the_tables_and_room_for_every_chunk() -> None:
    sizes: dict[str, Any] = {"n_tokens": 100, "n_sequences": 2, "key_heads": 1, "value_heads": 2, "head_dim": 64}
    assert bounded_batch(100, 2).n_chunks == 3
    tables = 4 * 256  # of 3 and 3 numbers each, up to a multiple of 256 bytes
    assert workspace_bytes(**sizes, host_lengths=False) == workspace_bytes(**sizes, n_chunks=3) + tables
