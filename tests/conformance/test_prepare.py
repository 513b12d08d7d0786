"""The host's half runs, and the device's half trusts it only while nothing has changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tools.gpu_conformance as tool
from loomgen.conformance.case import Case
from loomgen.conformance.compare import Array, Bitwise, compare
from loomgen.conformance.device import DeviceError
from loomgen.conformance.fragments import BF16, F16
from loomgen.conformance.host import UnwrittenOutput, compile_for_host, run_on_host
from loomgen.conformance.inputs import distinct
from loomgen.conformance.prepared import StalePreparation, open_prepared, prepare
from loomgen.conformance.table import all_cases

CACHE = Path(__file__).resolve().parents[2] / "build" / "emulator"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    prepare(all_cases(), folder, CACHE)
    return folder


def output(folder: Path, name: str) -> Array:
    case = next(case for case in all_cases() if case.name == name)
    return open_prepared(folder).output(case, case.inputs())


def test_every_case_runs_on_the_host(folder: Path) -> None:
    assert {path.stem for path in folder.glob("*.npz")} == {case.name for case in all_cases()}


def test_indices(folder: Path) -> None:
    thread = np.arange(96)
    expected = [np.stack([thread, thread % 32, thread // 32, np.full(96, block)], 1) for block in range(300)]
    np.testing.assert_array_equal(output(folder, "kernel_indices"), np.stack(expected))


def test_predicated_copies_are_zeros(folder: Path) -> None:
    rows = output(folder, "copy_async_16_past_the_end").reshape(256, 4)
    assert rows[:200].all()
    assert not rows[200:].any()


def test_barriers_make_words_of_other_threads_visible(folder: Path) -> None:
    for name in ("sync_by_warp", "sync_by_block", "sync_by_pairs_of_warps", "sync_by_three_warps"):
        words = output(folder, name)
        assert np.unique(words).size > 0.9 * words.size


def test_exactly_summable_products_are_integers(folder: Path) -> None:
    for name in ("mma_bf16.integers", "mma_f16.integers", "mma_tf32.integers"):
        sums = output(folder, name)
        assert np.array_equal(sums, np.rint(sums))
        assert np.unique(sums).size > 10_000


def test_rings_hand_over_every_word(folder: Path) -> None:
    words = output(folder, "mbarrier_ring")
    sent = distinct(16 * 8 * 32, np.uint32).reshape(16, 8, 32)
    for warp in range(3):
        np.testing.assert_array_equal(words[:, :, warp], np.roll(sent, -5 * (warp + 1), axis=2))


def test_a_panel_follows_another(folder: Path) -> None:
    by_tile, by_panels, later = output(folder, "panel_addresses").astype(np.int64)
    np.testing.assert_array_equal(by_tile, by_panels)
    np.testing.assert_array_equal(later - by_tile, 2 * 16 * 192 * 2)
    row, col = np.arange(16)[:, None], np.arange(192)[None, :]
    plain = col // 64 * 2048 + row * 128 + col % 64 * 2
    np.testing.assert_array_equal(by_tile, plain ^ (row % 8) << 4)


def test_boxes_are_cut_out_of_a_matrix_of_zeros(folder: Path) -> None:
    case = next(case for case in all_cases() if case.name == "tma_load_bf16_32_2")
    x = np.pad(case.inputs()[0], ((5, 40), (8, 40)))
    boxes = [x[7 * block :, block % 3 * 24 :][:16, :32] for block in range(9)]
    np.testing.assert_array_equal(output(folder, case.name), np.stack(boxes))


def test_boxes_are_put_together_to_a_matrix(folder: Path) -> None:
    case = next(case for case in all_cases() if case.name == "tma_store_float_32_3")
    tiles = case.inputs()[0].reshape(3, 3, 16, 32)
    whole = tiles.transpose(0, 2, 1, 3).reshape(48, 96)
    np.testing.assert_array_equal(output(folder, case.name), whole[:40, :72])
    ring = next(case for case in all_cases() if case.name == "tma_store_ring")
    np.testing.assert_array_equal(output(folder, ring.name).ravel(), ring.inputs()[0])


def test_products_of_warpgroups_are_those_of_the_matrices(folder: Path) -> None:
    for name, form in (("wgmma_bf16_64_1", BF16), ("wgmma_f16_256_3", F16)):
        case = next(case for case in all_cases() if case.name == f"{name}.integers")
        a, b, c = case.inputs()
        expected = form.decode(a) @ form.decode(b).swapaxes(1, 2) + c
        np.testing.assert_array_equal(output(folder, case.name), expected)
        rounded = next(case for case in all_cases() if case.name == f"{name}.fractions")
        a, b, c = rounded.inputs()
        exact = form.decode(a).astype(np.float64) @ form.decode(b).astype(np.float64).swapaxes(1, 2) + c
        outcome = compare(rounded.comparison, (a, b, c), output(folder, rounded.name), exact.astype(np.float32))
        assert outcome.outside == 0
        wrong = compare(rounded.comparison, (a, b, c), output(folder, rounded.name), (exact * 1.001).astype(np.float32))
        assert wrong.outside > 0.9 * wrong.elements


def test_inverses_leave_the_rest_alone_and_some_overflow(folder: Path) -> None:
    inverses = output(folder, "linalg_invert_unit_lower_16")
    outside = np.ones((32, 32), bool)
    outside[16:, 8:24] = False
    assert (inverses[:, outside] == -7.0).all()
    np.testing.assert_array_equal(inverses[0, 16:, 8:24].diagonal(), 1.0)
    assert np.isfinite(inverses[:32]).all()
    assert not np.isfinite(inverses[-1]).all()


def test_changed_inputs_are_refused(folder: Path) -> None:
    case = next(case for case in all_cases() if case.name == "math_sqrt_rn.every_exponent")
    with pytest.raises(StalePreparation, match="not of these inputs"):
        open_prepared(folder).output(case, tuple(-x for x in case.inputs()))


def test_changed_sources_are_refused(folder: Path, tmp_path: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"sources": "others"}))
    with pytest.raises(StalePreparation, match="other sources"):
        open_prepared(tmp_path)
    with pytest.raises(StalePreparation, match="no prepared results"):
        open_prepared(tmp_path / "nowhere")


def test_a_kernel_must_write_all_of_its_output() -> None:
    case = next(case for case in all_cases() if case.name == "layout_advance")
    larger = replace(case, output_shape=(129,))
    with pytest.raises(UnwrittenOutput, match="4 bytes"):
        run_on_host(larger, compile_for_host([(larger, 0)], CACHE)[larger.kernel], ())


class Wrong:
    """A device that returns the host's results, but swaps two lanes of one case and loses another one."""

    def __init__(self, folder: Path) -> None:
        self.prepared = open_prepared(folder)

    def run(self, case: Case, inputs: Sequence[Array]) -> Array:
        if case.name == "sync_by_warp":
            raise DeviceError("cuCtxSynchronize: lost")
        result: Array = self.prepared.output(case, inputs).copy()
        if case.name == "mma_ldmatrix_x4":
            result[[8, 9]] = result[[9, 8]]
        return result


def test_a_planted_lane_permutation_is_the_one_that_fails(folder: Path) -> None:
    device = Wrong(folder)
    cases = [case for case in all_cases() if isinstance(case.comparison, Bitwise) and case.source in ("mma", "sync")]
    opened = []

    def opening() -> AbstractContextManager[Wrong]:
        opened.append(device)
        return nullcontext(device)

    rows = tool.compare_all(cases, device.prepared, opening)
    assert [row.case for row in rows] == [case.name for case in cases]
    assert len(opened) == 2, "the context of the case that was lost is not used again"
    assert {row.case: row.differing for row in rows if not row.ok} == {"mma_ldmatrix_x4": 8, "sync_by_warp": 16384}


def test_without_a_gpu_the_run_says_so(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["run", "--prepared", str(tmp_path), "--out", str(tmp_path), "--commit", "abc"]) == 2
    assert "holds no prepared results" in capsys.readouterr().err
