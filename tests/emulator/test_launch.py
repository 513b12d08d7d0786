"""Arguments, outputs, the schedule of blocks and threads, bank conflicts, and what a launch reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loomgen.emulator import BankUse, Buffer, EmulatorOptions
from loomgen.emulator.arguments import Value
from tests.emulator.support import kernel_text

OUT = "float* y"


def test_every_kind_of_parameter(tmp_path: Path) -> None:
    body = ["if (thread_index() == 0 && z == nullptr) st_global(y, a + double(b) + c + (d ? 0.5 : 0.0));"]
    c_parameters = "double* y, int32_t a, int64_t b, float c, bool d, const float* z"
    kernel = kernel_text(tmp_path, body, "*y i:a l:b f:c b:d *z", c_parameters)
    y = np.zeros(1)
    arguments: dict[str, Value] = {
        "y": Buffer(y, "out"),
        "a": -3,
        "b": 2**40,
        "c": 0.25,
        "d": True,
        "z": Buffer(None, "in"),
    }
    kernel.launch(arguments, grid=1, block=32, shared_bytes=0)
    assert y[0] == 2**40 - 3 + 0.75


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"n": 2**31}, "argument n: 2147483648 is no i32"),
        ({"n": 1.5}, "argument n: want a i32, got 1.5"),
        ({"n": Buffer(None, "in")}, "argument n: want a i32, got Buffer"),
        ({"y": 3}, "argument y: want a pointer, got int"),
        ({"z": 1}, r"arguments \['n', 'y', 'z'\]: want \['n', 'y'\]"),
        ({"y": Buffer(np.zeros((4, 4))[:, ::2], "in")}, "argument y: want a C-contiguous array"),
        ({"block": 33}, "block 33: want whole warps"),
        ({"block": 1056}, "block 1056: want whole warps"),
        ({"grid": -1}, "grid -1"),
        ({"shared_bytes": -1}, "shared_bytes -1"),
    ],
)
def test_wrong_arguments(tmp_path: Path, changed: dict[str, Any], error: str) -> None:
    kernel = kernel_text(tmp_path, ["st_global(y, 1.0f);"], "*y i:n", "float* y, int32_t n")
    launch: dict[str, Any] = {"grid": 1, "block": 32, "shared_bytes": 0}
    arguments: dict[str, Any] = {"y": Buffer(np.zeros(4, np.float32), "out"), "n": 1}
    launch.update({k: v for k, v in changed.items() if k in launch})
    arguments.update({k: v for k, v in changed.items() if k not in launch})
    with pytest.raises((TypeError, ValueError), match=error):
        kernel.launch(arguments, **launch)


def test_what_an_output_keeps(tmp_path: Path) -> None:
    kernel = kernel_text(tmp_path, ["if (thread_index() < 3) st_global(y + thread_index(), 1.0f);"], "*y", OUT)
    y = np.full(5, 7.0, np.float32)
    report = kernel.launch({"y": Buffer(y, "out")}, grid=1, block=32, shared_bytes=0)
    assert y.tolist() == [1.0, 1.0, 1.0, 7.0, 7.0]
    assert report.unwritten == {"y": 8}


def test_an_inout_buffer_is_read_and_written(tmp_path: Path) -> None:
    kernel = kernel_text(tmp_path, ["float* p = y + thread_index();", "st_global(p, ld_global(p) + 1.0f);"], "*y", OUT)
    y = np.arange(32, dtype=np.float32)
    report = kernel.launch({"y": Buffer(y, "inout")}, grid=1, block=32, shared_bytes=0)
    assert y.tolist() == list(range(1, 33))
    assert report.unwritten == {}


def test_an_empty_grid_and_an_empty_tensor(tmp_path: Path) -> None:
    kernel = kernel_text(tmp_path, ["st_global(y, 1.0f);"], "*y", OUT)
    report = kernel.launch({"y": Buffer(np.zeros(0, np.float32), "out")}, grid=0, block=32, shared_bytes=0)
    assert report.primitives == {}


def test_the_order_of_blocks_and_threads_follows_the_seed(tmp_path: Path) -> None:
    """A race that the detector cannot see, through a static variable, shows the order."""
    body = [
        "static int next = 0;",
        "st_global(y + 32 * block_index() + thread_index(), static_cast<float>(next++ % 128));",
    ]
    kernel = kernel_text(tmp_path, body, "*y", OUT)

    def order(seed: int) -> list[int]:
        y = np.zeros(128, np.float32)
        kernel.launch({"y": Buffer(y, "out")}, grid=4, block=32, shared_bytes=0, options=EmulatorOptions(seed=seed))
        return [int(value) for value in y]

    assert sorted(order(0)) == list(range(128))
    assert order(0) == order(0)
    assert order(0) != order(1)
    assert order(0) != sorted(order(0))


def banks(tmp_path: Path, statement: str) -> BankUse:
    """The bank use of one store by a warp."""
    body = ["const int lane = thread_index();", statement]
    kernel = kernel_text(tmp_path, body, "*y", OUT)
    report = kernel.launch({"y": Buffer(None, "out")}, grid=1, block=32, shared_bytes=65536)
    assert list(report.banks) == [6]
    return report.banks[6]


@pytest.mark.parametrize(
    ("statement", "conflicts"),
    [
        ("st_shared(shared_memory() + lane * 4, 1.0f);", 0),
        ("st_shared(shared_memory() + lane * 8, 1.0f);", 1),
        ("st_shared(shared_memory() + lane * 128, 1.0f);", 31),
        ("st_shared(shared_memory() + lane * 132, 1.0f);", 0),
        ("st_shared(shared_memory() + lane * 2, to_bf16(1.0f));", 0),
        ("st_shared(shared_memory() + lane * 64, to_bf16(1.0f));", 15),
        ("st_shared(shared_memory() + lane * 8, f32x2{1, 2});", 0),
        ("st_shared(shared_memory() + lane * 128, f32x2{1, 2});", 2 * 15),
        ("st_shared(shared_memory() + lane * 16, f32x4{1, 2, 3, 4});", 0),
        ("st_shared(shared_memory() + lane * 128, f32x4{1, 2, 3, 4});", 4 * 7),
        ("st_shared(shared_memory() + lane * 144, f32x4{1, 2, 3, 4});", 0),
        ("if (lane < 5) st_shared(shared_memory() + lane * 128, 1.0f);", 4),
        ("cp_async_16(shared_memory() + lane * 256, nullptr, false);", 4 * 7),
    ],
)
def test_bank_conflicts_of_an_access(tmp_path: Path, statement: str, conflicts: int) -> None:
    assert banks(tmp_path, statement) == BankUse(accesses=1, conflicts=conflicts)


def test_lanes_that_read_one_word_do_not_conflict(tmp_path: Path) -> None:
    body = [
        "st_shared(shared_memory() + thread_index() * 4, 1.0f);",
        "sync_warp();",
        "st_global(y + thread_index(), ld_shared<float>(shared_memory() + thread_index() / 8 * 4));",
    ]
    kernel = kernel_text(tmp_path, body, "*y", OUT)
    report = kernel.launch({"y": Buffer(np.zeros(32, np.float32), "out")}, grid=1, block=32, shared_bytes=128)
    assert report.banks[7] == BankUse(accesses=1, conflicts=0)


def test_lanes_meet_on_their_turns_through_a_loop(tmp_path: Path) -> None:
    """Lane l makes l + 1 turns; in turn t the lanes t .. 31 store to different words of one bank."""
    body = [
        "const int lane = thread_index();",
        "for (int t = 0; t <= lane; ++t) {",
        "st_shared(shared_memory() + (t * 32 + lane) * 128, to_bf16(1.0f));",
        "}",
    ]
    kernel = kernel_text(tmp_path, body, "*y", OUT)
    report = kernel.launch({"y": Buffer(None, "out")}, grid=1, block=32, shared_bytes=32 * 32 * 128)
    assert report.banks[7] == BankUse(accesses=32, conflicts=sum(range(32)))


@pytest.mark.parametrize(
    ("pitch", "swizzle", "conflicts"),
    [(64, 0, 4 * 7), (72, 0, 0), (64, 3, 0), (32, 0, 4 * 3), (32, 2, 0), (16, 1, 0), (48, 1, 0)],
)
def test_bank_conflicts_of_ldmatrix(tmp_path: Path, pitch: int, swizzle: int, conflicts: int) -> None:
    body = [
        f"const SharedTile<bf16, 32, 8, {pitch}, {swizzle}> t{{shared_memory()}};",
        "st_shared(t.at(thread_index(), 0), u32x4{0, 0, 0, 0});",
        "sync_warp();",
        "uint32_t r[4];",
        "ldmatrix_x4(r, t.at(thread_index(), 0));",
    ]
    kernel = kernel_text(tmp_path, body, "*y", OUT)
    report = kernel.launch({"y": Buffer(None, "out")}, grid=1, block=32, shared_bytes=32 * pitch * 2)
    assert report.banks[9] == BankUse(accesses=4, conflicts=conflicts)
