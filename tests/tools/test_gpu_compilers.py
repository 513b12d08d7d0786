"""The tool that puts nvcc beside NVRTC on a card, as far as it goes without one."""

from __future__ import annotations

from loomgen.bench.timing import Spread
from loomgen.bench.workloads import Suite, select
from tools.gpu_compilers import ROWS, code_row, reported

ONE = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 FADD R2, R3, R4 ;
"""
OTHER = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 FADD R2, R3, R4 ;
        /*0020*/                   FADD R5, R3, R4 ;
"""


def test_opcodes_whose_numbers_differ_are_told() -> None:
    assert code_row("kernel", {"nvcc": b"12", "nvrtc": b"123"}, {"nvcc": ONE, "nvrtc": OTHER}) == {
        "row": "kernel",
        "pass": "code",
        "cubin_bytes": {"nvcc": 2, "nvrtc": 3},
        "instructions": {"nvcc": 2, "nvrtc": 3},
        "same_sass": False,
        "differing_opcodes": {"FADD": {"nvcc": 1, "nvrtc": 2}},
    }


def test_the_same_text_is_the_same_code() -> None:
    row = code_row("kernel", {"nvcc": b"1", "nvrtc": b"2"}, {"nvcc": ONE, "nvrtc": ONE})
    assert row["same_sass"] and row["differing_opcodes"] == {}


def test_the_ratio_is_of_medians() -> None:
    times = {"nvcc": Spread(2.0, 1.0, 3.0), "nvrtc": Spread(2.1, 2.0, 2.2)}
    assert reported(times) == {
        "kernel_ms": {"nvcc": 2.0, "nvrtc": 2.1},
        "kernel_range_ms": {"nvcc": [1.0, 3.0], "nvrtc": [2.0, 2.2]},
        "nvrtc_over_nvcc": 1.05,
    }


def test_each_row_is_one_shape() -> None:
    assert sorted(case.key for case in select((Suite.PERF,), ROWS)) == sorted(ROWS)
