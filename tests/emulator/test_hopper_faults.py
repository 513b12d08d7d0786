"""Barriers in shared memory, boxes and warpgroups' products: what they do, and each way to misuse them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from loomgen.emulator import EmulatedKernel, EmulatorFault, EmulatorOptions, EmulatorReport, FaultKind
from loomgen.emulator.arguments import Value
from tests.emulator.support import box_map, kernel_text

FLOATS = npt.NDArray[np.float32]

HEAD = [
    "const SharedTile<float, 8, 32, 32, 3> t{shared_memory()};",
    "const SharedTile<bf16, 64, 64, 64, 3> a{shared_memory()};",
    "const SharedTile<float, 1, 128, 128, 0> u{shared_memory() + 2048};",
    "const BarrierRing<2> bar{shared_memory() + 8192};",
    "const int i = thread_index();",
    "if (i == 0) mbarrier_init(bar.at(0), 1);",
    "if (i == 0) mbarrier_init(bar.at(1), 64);",
    "if (i == 0) mbarrier_init_fence();",
    "sync_block();",
]
FIRST = 6 + len(HEAD)  # the line of the first statement of a test
ROWS, COLS = 20, 36


def kernel(folder: Path, body: Sequence[str]) -> EmulatedKernel:
    return kernel_text(
        folder,
        [*HEAD, *body],
        "m:x m:y",
        "LOOM_TENSOR_MAP x, LOOM_TENSOR_MAP y",
        headers=("loom/hopper.cuh", "loom/loom.cuh"),
    )


def run(
    folder: Path, body: Sequence[str], *, block: int = 128, seed: int = 0, completion: str = "late"
) -> tuple[FLOATS, EmulatorReport]:
    """Launches the statements ``body`` with x = 1, 2, 3, ... [20, 36] and y an output of its shape, -1 where nothing is
    written; boxes are 8 x 32."""
    x = np.arange(1, ROWS * COLS + 1, dtype=np.float32).reshape(ROWS, COLS)
    y = np.full((ROWS, COLS), -1.0, np.float32)
    arguments: dict[str, Value] = {
        "x": box_map("x", x, "in", rows=8, cols=32),
        "y": box_map("y", y, "out", rows=8, cols=32),
    }
    options = EmulatorOptions(seed=seed, completion="late" if completion == "late" else "random")
    report = kernel(folder, body).launch(arguments, grid=1, block=block, shared_bytes=16384, options=options)
    return y, report


def fault_of(folder: Path, body: Sequence[str], *, block: int = 128, seed: int = 0) -> EmulatorFault:
    with pytest.raises(EmulatorFault) as caught:
        run(folder, body, block=block, seed=seed)
    return caught.value


def load(row: int = 0, col: int = 0) -> list[str]:
    """Thread 0 asks for a box of x; all wait for it."""
    return [
        "if (i == 0) mbarrier_expect_bytes(bar.at(0), 1024);",
        f"if (i == 0) tma_load(t, x, {row}, {col}, bar.at(0));",
        "mbarrier_wait(bar.at(0), 0);",
    ]


def store(row: int = 0, col: int = 0) -> list[str]:
    """Thread 0 stores the tile to y."""
    return [
        f"if (i == 0) tma_store(y, {row}, {col}, t);",
        "if (i == 0) tma_store_commit();",
        "if (i == 0) tma_store_wait<0>();",
    ]


WRITE = ["for (int j = i; j < 256; j += 128) st_shared(t.at(j / 32, j % 32), 2.0f);", "fence_proxy_async();"]


# --------------------------------------------------------------------------- barriers


@pytest.mark.parametrize("seed", range(5))
def test_a_wait_knows_what_came_before_the_arrivals_of_its_phase(tmp_path: Path, seed: int) -> None:
    body = [
        "if (i < 64) st_shared(u.at(0, i), 1.0f);",
        "if (i < 64) mbarrier_arrive(bar.at(1));",
        "if (i >= 64) mbarrier_wait(bar.at(1), 0);",
        "if (i >= 64) ld_shared<float>(u.at(0, i - 64));",
    ]
    run(tmp_path, body, seed=seed)
    without_wait = fault_of(tmp_path, [line for line in body if "wait" not in line], seed=seed)
    assert without_wait.kind in (FaultKind.RACE, FaultKind.UNINITIALISED)


@pytest.mark.parametrize("seed", range(5))
def test_a_wait_knows_nothing_of_arrivals_in_the_next_phase(tmp_path: Path, seed: int) -> None:
    body = [
        "if (i < 64) mbarrier_arrive(bar.at(1));",
        "if (i == 64) mbarrier_wait(bar.at(1), 0);",
        "if (i == 64) st_shared(u.at(0, 0), 1.0f);",
        "if (i == 64) mbarrier_arrive(bar.at(1));",
        "if (i == 96) mbarrier_wait(bar.at(1), 0);",
        "if (i == 96) ld_shared<float>(u.at(0, 0));",
    ]
    assert fault_of(tmp_path, body, seed=seed).kind in (FaultKind.RACE, FaultKind.UNINITIALISED)
    next_phase = ["if (i < 63) mbarrier_arrive(bar.at(1));", "if (i == 96) mbarrier_wait(bar.at(1), 1);"]
    run(tmp_path, [*body[:5], *next_phase, body[5]], seed=seed)


def test_parity_1_of_a_new_barrier_is_over(tmp_path: Path) -> None:
    run(tmp_path, ["mbarrier_wait(bar.at(0), 1);"])


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("mbarrier_arrive(shared_memory() + 512);", FaultKind.BAD_BARRIER),
        ("mbarrier_wait(shared_memory() + 512, 0);", FaultKind.BAD_BARRIER),
        ("if (i == 0) mbarrier_init(bar.at(0), 1);", FaultKind.BAD_BARRIER),
        ("if (i == 0) mbarrier_init(shared_memory() + 512, 0);", FaultKind.BAD_BARRIER),
        ("if (i == 0) mbarrier_init(shared_memory() + 516, 1);", FaultKind.MISALIGNED),
        ("if (i == 0) mbarrier_init(shared_memory() + 16384, 1);", FaultKind.OUT_OF_BOUNDS),
        ("mbarrier_wait(bar.at(0), 2);", FaultKind.BAD_BARRIER),
        ("mbarrier_wait(bar.at(1), 0);", FaultKind.DEADLOCK),
        ("if (i == 0) mbarrier_expect_bytes(bar.at(0), -16);", FaultKind.BAD_BARRIER),
        ("if (i == 0) mbarrier_expect_bytes(bar.at(0), 1 << 20);", FaultKind.BAD_BARRIER),
        ("if (i < 2) mbarrier_expect_bytes(bar.at(0), 16);", FaultKind.BAD_BARRIER),
        ("if (i == 0) ld_shared<float>(bar.at(0));", FaultKind.BAD_BARRIER),
        ("if (i == 0) st_shared(bar.at(1), 1.0f);", FaultKind.BAD_BARRIER),
        ("if (i == 0) tma_load(t, x, 0, 0, bar.at(1));", FaultKind.PENDING_COPY),
        (
            "if (i == 0) tma_load(SharedTile<float, 8, 32, 32, 3>{t.base + 512}, x, 0, 0, bar.at(0));",
            FaultKind.MISALIGNED,
        ),
        ("if (i == 0) tma_load(SharedTile<float, 16, 32, 32, 3>{t.base}, x, 0, 0, bar.at(0));", FaultKind.BAD_BOX),
        ("if (i == 0) tma_load(SharedTile<bf16, 8, 32, 32, 0>{t.base}, x, 0, 0, bar.at(0));", FaultKind.BAD_BOX),
        ("if (i == 0) tma_load(t, x, 0, 10, bar.at(0));", FaultKind.BAD_BOX),
        ("if (i == 0) tma_store(y, 0, 10, t);", FaultKind.BAD_BOX),
        ("if (i == 0) tma_store(y, -8, 0, t);", FaultKind.BAD_BOX),
        ("if (i == 0) tma_store(y, 0, -8, t);", FaultKind.BAD_BOX),
        ("wgmma_operand(a, 4, 0);", FaultKind.MISALIGNED),
        ("wgmma_operand(a, 0, 8);", FaultKind.MISALIGNED),
        ("wgmma_operand(a, 64, 0);", FaultKind.OUT_OF_BOUNDS),
        ("claim_registers<240>();", FaultKind.BAD_REGISTERS),
    ],
)
def test_one_wrong_statement(tmp_path: Path, statement: str, kind: FaultKind) -> None:
    fault = fault_of(tmp_path, [statement])
    assert (fault.kind, fault.line) == (kind, FIRST)


def test_barriers_are_used_once_their_making_is_known(tmp_path: Path) -> None:
    body = [
        "if (i == 0) mbarrier_init(bar.at(0) + 64, 1);",
        "if (i == 0) mbarrier_init_fence();",
        "{}",
        "if (i == 40) mbarrier_arrive(bar.at(0) + 64);",
    ]
    run(tmp_path, [line.replace("{}", "sync_block();") for line in body])
    for between, kind in (("shuffle_xor(1.0f, 1);", FaultKind.RACE), ("sync_block();", FaultKind.BAD_BARRIER)):
        lines = [line.replace("{}", between) for line in body if kind is FaultKind.RACE or "fence" not in line]
        kinds = {fault_of(tmp_path, lines, seed=seed).kind for seed in range(4)}
        assert kinds <= {kind, FaultKind.BAD_BARRIER}
        assert kind in kinds


# --------------------------------------------------------------------------- boxes


@pytest.mark.parametrize("completion", ["late", "random"])
@pytest.mark.parametrize(("row", "col"), [(0, 0), (4, 4), (-3, -8), (15, 20), (-8, 0), (20, 40)])
def test_boxes_are_zero_outside_and_stores_stay_inside(tmp_path: Path, row: int, col: int, completion: str) -> None:
    """The box at (row, col) of x goes to (row + 8, col + 12) of y: a store begins at no negative place."""
    y, report = run(tmp_path, [*load(row, col), *store(row + 8, col + 12)], completion=completion)
    x = np.zeros((ROWS + 48, COLS + 96), np.float32)
    x[16 : 16 + ROWS, 48 : 48 + COLS] = np.arange(1, ROWS * COLS + 1).reshape(ROWS, COLS)
    expected = np.full_like(x, -1.0)
    expected[24 + row : 32 + row, 60 + col : 92 + col] = x[16 + row : 24 + row, 48 + col : 80 + col]
    expected = expected[16 : 16 + ROWS, 48 : 48 + COLS]
    np.testing.assert_array_equal(y, expected)
    assert report.unwritten.get("y", 0) == 4 * int((expected == -1.0).sum())


def test_a_load_is_seen_as_the_tile_has_it(tmp_path: Path) -> None:
    check = "if (ld_shared<float>(t.at(j / 32, j % 32)) != 36.0f * (j / 32) + j % 32 + 1) ld_shared<float>(t.at(9, 0));"
    run(tmp_path, [*load(), f"for (int j = i; j < 256; j += 128) {check}"])


ORDERED = {
    "a load without its wait": (
        [*load()[:2], "if (i == 0) ld_shared<float>(t.at(0, 0));", "mbarrier_wait(bar.at(0), 0);"],
        "RACE",
    ),
    "a load over what another thread reads": (
        [*WRITE, "sync_block();", "if (i == 64) ld_shared<float>(t.at(0, 0));", *load()],
        "RACE",
    ),
    "a load over what no fence follows": ([WRITE[0], "sync_block();", *load()], "PROXY"),
    "a load with too few bytes": (["if (i == 0) mbarrier_expect_bytes(bar.at(0), 512);", *load()[1:]], "BAD_BARRIER"),
    "a load with too many bytes": (["if (i == 0) mbarrier_expect_bytes(bar.at(0), 1040);", *load()[1:]], "DEADLOCK"),
    "a load that nobody waits for": (load()[:2], "PENDING_COPY"),
    "a store of what no fence follows": ([WRITE[0], "sync_block();", *store()], "PROXY"),
    "a store whose writers' fence is another's": (
        [WRITE[0], "sync_block();", "if (i == 0) fence_proxy_async();", *store()],
        "PROXY",
    ),
    "a store before the barrier": ([*WRITE, *store()], "RACE"),
    "a store of nothing": (store(), "UNINITIALISED"),
    "a store that is overwritten": (
        [*WRITE, "sync_block();", *store()[:2], "if (i == 0) st_shared(t.at(0, 0), 1.0f);", store()[2]],
        "RACE",
    ),
    "a store that nobody waits for": ([*WRITE, "sync_block();", *store()[:2]], "PENDING_COPY"),
    "a store in no group": ([*WRITE, "sync_block();", store()[0], store()[2]], "PENDING_COPY"),
    "two stores to one place": ([*WRITE, "sync_block();", *store(), *store(4, 4)], "RACE"),
    "a store to an input": ([*WRITE, "sync_block();", "if (i == 0) tma_store(x, 0, 0, t);"], "READ_ONLY"),
    "a load of what was stored": (
        [*WRITE, "sync_block();", *store(), *(line.replace(", x,", ", y,") for line in load(4, 4))],
        "RACE",
    ),
    "a tile read with another swizzle": (
        [*load(), "ld_shared<float>(SharedTile<float, 8, 32, 32, 0>{t.base}.at(0, 0));"],
        "LAYOUT",
    ),
}


@pytest.mark.parametrize(("body", "kind"), ORDERED.values(), ids=ORDERED.keys())
def test_boxes_out_of_order(tmp_path: Path, body: list[str], kind: str) -> None:
    kinds = {fault_of(tmp_path, body, seed=seed).kind for seed in range(3)}
    allowed = {FaultKind[kind]}
    if kind == "RACE":
        allowed.add(FaultKind.UNINITIALISED)
    assert kinds <= allowed
    assert FaultKind[kind] in kinds


def test_what_is_fenced_and_known_may_be_stored_and_then_be_loaded_over(tmp_path: Path) -> None:
    y, _ = run(tmp_path, [*WRITE, "sync_block();", *store(), *load(), *store(8, 0)])
    assert (y[:8, :32] == 2.0).all()
    np.testing.assert_array_equal(y[8:16, :32], np.arange(1, ROWS * COLS + 1).reshape(ROWS, COLS)[:8, :32])


# --------------------------------------------------------------------------- products

OPERANDS = [
    "for (int j = i; j < 4096; j += blockDim_) st_shared(a.at(j / 64, j % 64), to_bf16(1.0f));",
    "fence_proxy_async();",
    "sync_block();",
    "float acc[8][4] = {};",
]
MULTIPLY = "wgmma_m64k16<bf16>(acc, wgmma_operand(a, 0, 0), wgmma_operand(a, 0, 16));"
PRODUCTS = {
    "right": (["wgmma_fence();", MULTIPLY, MULTIPLY, "wgmma_commit();", "wgmma_wait<0>();"], None),
    "unfenced": ([MULTIPLY, "wgmma_commit();", "wgmma_wait<0>();"], "ACCUMULATOR"),
    "unfenced after a wait": (
        [
            "wgmma_fence();",
            MULTIPLY,
            "wgmma_commit();",
            "wgmma_wait<0>();",
            MULTIPLY,
            "wgmma_commit();",
            "wgmma_wait<0>();",
        ],
        "ACCUMULATOR",
    ),
    "touched before the wait": (
        ["wgmma_fence();", MULTIPLY, "acc[3][1] = 0.0f;", "wgmma_commit();", "wgmma_wait<0>();"],
        "ACCUMULATOR",
    ),
    "touched between products": (
        ["wgmma_fence();", MULTIPLY, "acc[3][1] = 0.0f;", MULTIPLY, "wgmma_commit();", "wgmma_wait<0>();"],
        "ACCUMULATOR",
    ),
    "never waited for": (["wgmma_fence();", MULTIPLY, "wgmma_commit();"], "ACCUMULATOR"),
    "in no group": (["wgmma_fence();", MULTIPLY, "wgmma_wait<0>();"], "ACCUMULATOR"),
    "waited for by some warps": (
        ["wgmma_fence();", MULTIPLY, "wgmma_commit();", "if (i < 32) wgmma_wait<0>();", MULTIPLY],
        "ACCUMULATOR",
    ),
    "called by some warps": (["wgmma_fence();", f"if (i < 96) {MULTIPLY}"], "DIVERGENT_COLLECTIVE"),
    "called from two lines": (
        ["wgmma_fence();", "if (i < 64) {", MULTIPLY, "} else {", MULTIPLY, "}"],
        "DIVERGENT_COLLECTIVE",
    ),
    "of different operands": (
        ["wgmma_fence();", MULTIPLY.replace("(a, 0, 0)", "(a, 0, i / 64 * 32)")],
        "DIVERGENT_COLLECTIVE",
    ),
    "of an operand without swizzle": (["wgmma_fence();", "wgmma_m64k16<bf16>(acc, 0, 0);"], "LAYOUT"),
    "of an operand with another swizzle": (
        ["wgmma_fence();", MULTIPLY.replace("(a, 0, 0)", "(SharedTile<bf16, 64, 32, 32, 2>{a.base}, 0, 0)")],
        "LAYOUT",
    ),
    "overwritten before the wait": (
        [
            "wgmma_fence();",
            MULTIPLY,
            "wgmma_commit();",
            "st_shared(a.at(i % 64, 0), to_bf16(2.0f));",
            "wgmma_wait<0>();",
        ],
        "RACE",
    ),
    "of operands without a fence": (
        ["st_shared(a.at(i % 64, i / 64), to_bf16(2.0f));", "sync_block();", "wgmma_fence();", MULTIPLY],
        "PROXY",
    ),
    "of operands that one warp alone knows": (
        [
            "if (i == 0) st_shared(a.at(0, 0), to_bf16(2.0f));",
            "fence_proxy_async();",
            "sync_warp();",
            "wgmma_fence();",
            MULTIPLY,
        ],
        "RACE",
    ),
}


@pytest.mark.parametrize(("body", "kind"), PRODUCTS.values(), ids=PRODUCTS.keys())
def test_products(tmp_path: Path, body: list[str], kind: str | None) -> None:
    """Those that end well sum up 32 ones."""
    lines = [line.replace("blockDim_", "128") for line in OPERANDS] + list(body)
    if kind is None:
        check = "for (int j = 0; j < 32; ++j) if (acc[j / 4][j % 4] != 32.0f) ld_shared<float>(t.at(9, 0));"
        run(tmp_path, [*lines, check])
        return
    assert {fault_of(tmp_path, lines, seed=seed).kind for seed in range(3)} == {FaultKind[kind]}


def test_accumulators_come_back_with_the_wait_for_their_group(tmp_path: Path) -> None:
    body = [
        *(line.replace("blockDim_", "128") for line in OPERANDS),
        "float more[8][4] = {};",
        "wgmma_fence();",
        MULTIPLY,
        "wgmma_commit();",
        MULTIPLY.replace("acc", "more"),
        "wgmma_commit();",
        "wgmma_wait<1>();",
        "if (acc[7][3] != 16.0f || more[7][3] == more[7][3]) ld_shared<float>(t.at(9, 0));",
        "acc[7][3] = 0.0f;",
        "wgmma_wait<0>();",
        "if (more[7][3] != 16.0f) ld_shared<float>(t.at(9, 0));",
    ]
    run(tmp_path, body)


def test_a_part_of_a_warpgroup_has_no_products(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, ["if (i >= 128) wgmma_fence();"], block=192)
    assert (fault.kind, fault.line) == (FaultKind.DIVERGENT_COLLECTIVE, FIRST)
    assert fault.message == "wgmma_fence in a warp that belongs to no whole warpgroup"


# --------------------------------------------------------------------------- registers


def test_claims_wait_for_releases(tmp_path: Path) -> None:
    """Three warpgroups start with 168 registers a thread."""
    claim = "if (i >= 128) claim_registers<232>();"
    for seed in range(5):
        run(tmp_path, [claim, "if (i < 128) release_registers<40>();"], block=384, seed=seed)
    fault = fault_of(tmp_path, [claim, "if (i < 128) release_registers<48>();"], block=384)
    assert (fault.kind, fault.line) == (FaultKind.DEADLOCK, FIRST)
    kept = fault_of(tmp_path, ["if (i < 128) release_registers<176>();"], block=384)
    assert kept.kind is FaultKind.BAD_REGISTERS
    some = fault_of(tmp_path, ["if (i < 96) release_registers<40>();"], block=384)
    assert some.kind is FaultKind.DIVERGENT_COLLECTIVE
