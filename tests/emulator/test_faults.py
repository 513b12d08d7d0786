"""Each kind of fault, planted in a kernel of a few lines, is caught and named with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from loomgen.emulator import Buffer, EmulatorFault, EmulatorOptions, FaultKind
from tests.emulator.support import kernel_text

TILES = [
    "const SharedTile<float, 8, 32, 32, 3> t{shared_memory()};",
    "const SharedTile<float, 8, 32, 32, 0> u{shared_memory()};",
    "const int i = thread_index();",
]
FIRST = 5 + len(TILES)  # the line of the first statement of a test


def run(
    folder: Path, body: list[str], *, grid: int = 1, block: int = 128, seed: int = 0, completion: str = "late"
) -> npt.NDArray[np.float32]:
    """Launches the statements ``body`` with x = 0, 1, 2, ... [256] and y an output [256]."""
    x = np.arange(256, dtype=np.float32)
    y = np.full(256, -1.0, np.float32)
    kernel = kernel_text(folder, [*TILES, *body])
    options = EmulatorOptions(seed=seed, completion="late" if completion == "late" else "random")
    arguments = {"x": Buffer(x, "in"), "y": Buffer(y, "out")}
    kernel.launch(arguments, grid=grid, block=block, shared_bytes=1024, options=options)
    return y


def fault_of(folder: Path, body: list[str], *, grid: int = 1, block: int = 128, seed: int = 0) -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        run(folder, body, grid=grid, block=block, seed=seed)
    return caught.value


@pytest.mark.parametrize("seed", range(5))
def test_missing_barrier(tmp_path: Path, seed: int) -> None:
    store, load = "st_shared(u.at(0, i % 32), 1.0f);", "st_global(y + i, ld_shared<float>(u.at(0, (i + 1) % 32)));"
    fault = fault_of(tmp_path, [store, load], block=32, seed=seed)
    assert fault.kind in (FaultKind.RACE, FaultKind.UNINITIALISED)
    assert run(tmp_path, [store, "sync_warp();", load], block=32, seed=seed)[:32].tolist() == [1.0] * 32


@pytest.mark.parametrize("seed", range(5))
def test_missing_barrier_before_reuse(tmp_path: Path, seed: int) -> None:
    """A write after another thread's read: no value is wrong yet, and it is a race all the same."""
    body = [
        "st_shared(u.at(i / 32, i % 32), 1.0f);",
        "sync_block();",
        "const float a = ld_shared<float>(u.at((i / 32 + 1) % 4, i % 32));",
        "{}",
        "st_shared(u.at(i / 32, i % 32), a + 1.0f);",
    ]
    fault = fault_of(tmp_path, body, seed=seed)
    assert fault.kind is FaultKind.RACE
    assert fault.line in (FIRST + 2, FIRST + 4)
    run(tmp_path, [line.replace("{}", "sync_block();") for line in body], seed=seed)


def test_a_race_names_both_sides(tmp_path: Path) -> None:
    body = ["if (i == 0) st_shared(u.at(0, 0), 1.0f);", "if (i == 32) st_shared(u.at(0, 0), 1.0f);"]
    fault = fault_of(tmp_path, body)
    first, second = (0, 32) if fault.thread == 32 else (32, 0)
    assert fault.kind is FaultKind.RACE
    assert fault.line == FIRST + (fault.thread == 32)
    line = FIRST + (first == 32)
    assert f"no barrier orders this after the write of thread {first} at line {line}" in fault.message
    assert second == fault.thread


def test_a_fault_names_kernel_block_thread_line_and_statement(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, ["if (block_index() == 2 && i == 7) ld_global(x + 256);"], grid=3)
    assert (fault.kernel, fault.block, fault.thread, fault.line) == ("k", 2, 7, FIRST)
    assert fault.statement == "y = f(x)"
    assert str(fault) == (
        f"out_of_bounds at k:{FIRST}, block 2, thread 7: bytes 1024 .. 1028 of tensor x, which has 1024 (in: y = f(x))"
    )


def test_a_shuffle_orders_no_memory(tmp_path: Path) -> None:
    body = [
        "st_shared(u.at(0, i), 1.0f);",
        "const float a = shuffle_xor(1.0f, 1);",
        "st_global(y + i, a + ld_shared<float>(u.at(0, (i + 1) % 32)));",
    ]
    assert fault_of(tmp_path, body, block=32).kind is FaultKind.RACE


@pytest.mark.parametrize("completion", ["late", "random"])
def test_copy_without_wait(tmp_path: Path, completion: str) -> None:
    body = [
        "cp_async_4(u.at(0, i), x + i);",
        "cp_async_commit();",
        "{}",
        "st_global(y + i, ld_shared<float>(u.at(0, i)));",
    ]
    with pytest.raises(EmulatorFault) as caught:
        run(tmp_path, body, block=32, completion=completion)
    assert caught.value.kind is FaultKind.PENDING_COPY
    waited = [line.replace("{}", "cp_async_wait<0>();") for line in body]
    assert run(tmp_path, waited, block=32, completion=completion)[:32].tolist() == list(range(32))


def test_wait_for_too_few_groups(tmp_path: Path) -> None:
    body = [
        "cp_async_4(u.at(0, i), x + i);",
        "cp_async_commit();",
        "cp_async_4(u.at(1, i), x + i);",
        "cp_async_commit();",
        "cp_async_wait<1>();",
        "st_global(y + i, ld_shared<float>(u.at(ROW, i)));",
    ]
    assert run(tmp_path, [line.replace("ROW", "0") for line in body], block=32)[3] == 3.0
    assert fault_of(tmp_path, [line.replace("ROW", "1") for line in body], block=32).kind is FaultKind.PENDING_COPY


def test_overwriting_the_destination_of_a_copy(tmp_path: Path) -> None:
    body = ["cp_async_4(u.at(0, i), x + i);", "cp_async_commit();", "st_shared(u.at(0, i), 0.0f);"]
    assert fault_of(tmp_path, body, block=32).kind is FaultKind.PENDING_COPY


def test_overwriting_the_source_of_a_copy(tmp_path: Path) -> None:
    body = ["st_global(y + i, 1.0f);", "cp_async_4(u.at(0, i), y + i);", "st_global(y + i, 2.0f);"]
    fault = fault_of(tmp_path, body, block=32)
    assert (fault.kind, fault.line) == (FaultKind.PENDING_COPY, FIRST + 2)


def test_a_copy_belongs_to_its_issuer_until_a_barrier(tmp_path: Path) -> None:
    body = [
        "cp_async_4(u.at(0, i), x + i);",
        "cp_async_commit();",
        "cp_async_wait<0>();",
        "st_global(y + i, ld_shared<float>(u.at(0, (i + 1) % 32)));",
    ]
    assert fault_of(tmp_path, body, block=32).kind in (FaultKind.RACE, FaultKind.PENDING_COPY, FaultKind.UNINITIALISED)


def test_a_barrier_before_the_wait_does_not_publish_a_copy(tmp_path: Path) -> None:
    """The shuffle makes lane 1 read after lane 0's wait, without ordering memory."""
    body = [
        "if (i == 0) cp_async_4(u.at(0, 0), x);",
        "cp_async_commit();",
        "sync_warp();",
        "cp_async_wait<0>();",
        "shuffle_xor(1.0f, 1);",
        "if (i == 1) ld_shared<float>(u.at(0, 0));",
    ]
    fault = fault_of(tmp_path, body, block=32)
    assert (fault.kind, fault.thread) == (FaultKind.RACE, 1)
    run(tmp_path, [line.replace("shuffle_xor(1.0f, 1)", "sync_warp()") for line in body], block=32)


def test_a_copy_that_is_not_valid_gives_zeros_and_reads_nothing(tmp_path: Path) -> None:
    body = [
        "cp_async_4(u.at(0, i), i < 8 ? x + i : nullptr, i < 8);",
        "cp_async_commit();",
        "cp_async_wait<0>();",
        "st_global(y + i, ld_shared<float>(u.at(0, i)));",
    ]
    assert run(tmp_path, body, block=32)[:32].tolist() == [*range(8), *[0] * 24]


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("st_global(y + i, ld_shared<float>(u.at(0, i % 32)));", FaultKind.UNINITIALISED),
        ("st_global(y + i, ld_global(y + i + 1));", FaultKind.UNINITIALISED),
        ("ld_global(x - 1);", FaultKind.OUT_OF_BOUNDS),
        ("ld_global(reinterpret_cast<const f32x2*>(x + 255));", FaultKind.OUT_OF_BOUNDS),
        ("ld_global(static_cast<const float*>(nullptr));", FaultKind.OUT_OF_BOUNDS),
        ("st_shared(u.at(8, 0), 1.0f);", FaultKind.OUT_OF_BOUNDS),
        ("st_shared(u.at(0, -1), 1.0f);", FaultKind.OUT_OF_BOUNDS),
        ("st_shared(shared_memory() + 1024, 1.0f);", FaultKind.OUT_OF_BOUNDS),
        ("cp_async_16(shared_memory(), x + 250);", FaultKind.MISALIGNED),
        ("cp_async_16(shared_memory(), x + 256);", FaultKind.OUT_OF_BOUNDS),
        ("cp_async_16(shared_memory() + 8, x);", FaultKind.MISALIGNED),
        ("st_global(const_cast<float*>(x), 1.0f);", FaultKind.READ_ONLY),
        ("ld_global(reinterpret_cast<const f32x4*>(x + 1));", FaultKind.MISALIGNED),
        ("st_shared(shared_memory() + 2, 1.0f);", FaultKind.MISALIGNED),
        ("st_shared(t.at(1, 0) + 16, 1.0f);", FaultKind.LAYOUT),
        ("sync_named(0, 32);", FaultKind.BAD_BARRIER),
        ("sync_named(16, 32);", FaultKind.BAD_BARRIER),
        ("sync_named(1, 33);", FaultKind.BAD_BARRIER),
        ("sync_named(1, 256);", FaultKind.BAD_BARRIER),
        ("sync_named(1, i < 32 ? 64 : 96);", FaultKind.BAD_BARRIER),
    ],
)
def test_one_wrong_statement(tmp_path: Path, statement: str, kind: FaultKind) -> None:
    fault = fault_of(tmp_path, [statement])
    assert (fault.kind, fault.line) == (kind, FIRST)


@pytest.mark.parametrize(
    ("written", "read", "ok"),
    [("t", "t", True), ("u", "u", True), ("t", "u", False), ("u", "t", False), ("u", "v", False), ("u", "plain", True)],
)
def test_layouts(tmp_path: Path, written: str, read: str, ok: bool) -> None:
    body = [
        "const SharedTile<float, 4, 64, 64, 0> v{shared_memory()};",
        f"st_shared({written}.at(0, i), 1.0f);",
        f"ld_shared<float>({'shared_memory() + 4 * i' if read == 'plain' else f'{read}.at(0, i)'});",
    ]
    if ok:
        run(tmp_path, body, block=32)
        return
    fault = fault_of(tmp_path, body, block=32)
    assert (fault.kind, fault.line) == (FaultKind.LAYOUT, FIRST + 2)
    assert f"written at line {FIRST + 1}" in fault.message


def test_a_swizzled_address_may_move_by_whole_periods(tmp_path: Path) -> None:
    body = [
        "const SharedTile<bf16, 16, 16, 16, 1> w{shared_memory()};",
        "st_shared(w.at(8 + i % 8, 8), to_bf16(2.0f));",
        "st_global(y + i, to_f32(ld_shared<bf16>(w.at(i, 8) + 256)));",
    ]
    assert run(tmp_path, [body[0], *(f"if (i < 8) {line}" for line in body[1:])], block=32)[:8].tolist() == [2.0] * 8


def test_collective_with_lanes_elsewhere(tmp_path: Path) -> None:
    body = ["if (i < 16) {", "shuffle_xor(1.0f, 1);", "} else {", "shuffle_xor(2.0f, 1);", "}"]
    fault = fault_of(tmp_path, body, block=32)
    assert fault.kind is FaultKind.DIVERGENT_COLLECTIVE
    assert f"line {FIRST + 1}" in str(fault)
    assert f"line {FIRST + 3}" in str(fault)


def test_collective_that_some_lanes_never_reach(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, ["if (i % 32 == 5) return;", "sync_warp();"])
    assert (fault.kind, fault.line) == (FaultKind.DIVERGENT_COLLECTIVE, FIRST + 1)
    assert fault.message.endswith(f"124 threads (first 0) in sync_warp at line {FIRST + 1}; 4 threads have exited")


def test_block_barrier_that_some_threads_never_reach(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, ["if (i >= 96) return;", "sync_block();"])
    assert (fault.kind, fault.line) == (FaultKind.DIVERGENT_BARRIER, FIRST + 1)
    assert "96 threads (first 0) in sync_block" in fault.message
    assert "32 threads have exited" in fault.message


def test_block_barriers_at_two_lines(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, ["if (i < 64) {", "sync_block();", "} else {", "sync_block();", "}"])
    assert fault.kind is FaultKind.DIVERGENT_BARRIER


def test_deadlock_names_where_each_side_waits(tmp_path: Path) -> None:
    body = ["if (i < 64) {", "sync_named(1, 128);", "} else {", "sync_named(2, 128);", "}"]
    fault = fault_of(tmp_path, body)
    assert fault.kind is FaultKind.DEADLOCK
    assert f"64 threads (first 0) in sync_named at line {FIRST + 1}" in fault.message
    assert f"64 threads (first 64) in sync_named at line {FIRST + 3}" in fault.message


def test_named_barriers_order_their_members_only(tmp_path: Path) -> None:
    body = [
        "st_shared(u.at(i / 32, i % 32), 1.0f);",
        "if (i < 64) sync_named(1, 64);",
        "if (i >= 64) sync_named(2, 64);",
        "ld_shared<float>(u.at(i / 32 ^ OTHER, i % 32));",
    ]
    run(tmp_path, [line.replace("OTHER", "1") for line in body])
    fault = fault_of(tmp_path, [line.replace("OTHER", "2") for line in body])
    assert fault.kind in (FaultKind.RACE, FaultKind.UNINITIALISED)


def test_blocks_are_not_ordered(tmp_path: Path) -> None:
    write_write = fault_of(tmp_path, ["if (i == block_index()) st_global(y, 1.0f);"], grid=2)
    assert write_write.kind is FaultKind.GRID_RACE
    body = ["if (i == 0 && block_index() == 0) st_global(y, 1.0f);", "if (i == 0 && block_index() == 1) ld_global(y);"]
    kinds = {fault_of(tmp_path, body, grid=2, seed=seed).kind for seed in range(8)}
    assert kinds == {FaultKind.GRID_RACE, FaultKind.UNINITIALISED}


def test_a_write_after_another_blocks_read_is_a_race(tmp_path: Path) -> None:
    body = ["if (block_index() == 0) ld_global(y + i);", "if (block_index() == 1) st_global(y + i, 1.0f);"]
    kernel = kernel_text(tmp_path, [*TILES, *body])
    y = np.zeros(256, np.float32)
    for seed in range(8):
        with pytest.raises(EmulatorFault) as caught:
            kernel.launch(
                {"x": Buffer(None, "in"), "y": Buffer(y, "inout")},
                grid=2,
                block=128,
                shared_bytes=1024,
                options=EmulatorOptions(seed=seed),
            )
        assert caught.value.kind is FaultKind.GRID_RACE


def test_blocks_may_read_what_none_writes(tmp_path: Path) -> None:
    kernel = kernel_text(tmp_path, [*TILES, "sync_block();", "for (int n = 0; n < 3; ++n) ld_global(y + i % 4);"])
    report = kernel.launch(
        {"x": Buffer(None, "in"), "y": Buffer(np.zeros(4, np.float32), "inout")}, grid=4, block=128, shared_bytes=0
    )
    assert report.primitives[FIRST + 1] == {"ld_global": 4 * 128 * 3}


def test_threads_of_a_block_race_on_global_memory(tmp_path: Path) -> None:
    body = ["st_global(y + i, 1.0f);", "{}", "ld_global(y + (i + 32) % 128);"]
    assert fault_of(tmp_path, body).kind in (FaultKind.RACE, FaultKind.UNINITIALISED)
    run(tmp_path, [line.replace("{}", "sync_block();") for line in body])


def test_many_readers_then_a_writer(tmp_path: Path) -> None:
    """The write is checked against every reader: ordered after warp 0's reads by the barrier, not after warp 1's."""
    body = [
        "if (i == 0) st_shared(u.at(0, 0), 1.0f);",
        "sync_block();",
        "if (i < 32 || i == 40) ld_shared<float>(u.at(0, 0));",
        "if (i < 32) sync_warp();",
        "if (i == 3) st_shared(u.at(0, 0), 2.0f);",
    ]
    fault = fault_of(tmp_path, body)
    assert fault.kind is FaultKind.RACE
    run(tmp_path, [line.replace(" || i == 40", "") for line in body])


def test_outputs_are_left_alone_when_a_launch_faults(tmp_path: Path) -> None:
    y = np.full(256, -1.0, np.float32)
    kernel = kernel_text(tmp_path, [*TILES, "st_global(y + i, 1.0f);", "ld_global(x);"])
    with pytest.raises(EmulatorFault, match="null pointer"):
        kernel.launch({"x": Buffer(None, "in"), "y": Buffer(y, "out")}, grid=1, block=32, shared_bytes=1024)
    assert y.tolist() == [-1.0] * 256
