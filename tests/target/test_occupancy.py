"""Occupancy against hand-computed cases, one for each limiter."""

from __future__ import annotations

import pytest

from loomgen.target import SM_90A, Occupancy, occupancy

KIB = 1024


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "blocks", "warps", "limiter"),
    [
        (32, 16, 0, 32, 32, "blocks"),
        (256, 32, 0, 8, 64, "threads"),
        (128, 128, 0, 4, 16, "registers"),
        (128, 255, 0, 2, 8, "registers"),
        # 186 registers are allocated as 192: two warps a scheduler, not the 10.7 warps of a plain division
        (128, 186, 0, 2, 8, "registers"),
        # 96 threads place a warp on three schedulers and leave the fourth's share unused
        (96, 168, 0, 3, 9, "registers"),
        (128, 32, 88 * KIB, 2, 8, "shared"),
        # the driver's own KiB makes 114 KiB one too many
        (128, 32, 114 * KIB, 1, 4, "shared"),
        (128, 32, 227 * KIB, 1, 4, "shared"),
        (128, 32, 228 * KIB, 0, 0, "shared"),
    ],
)
def test_limits(threads: int, registers: int, shared_bytes: int, blocks: int, warps: int, limiter: str) -> None:
    expected = Occupancy(blocks=blocks, warps=warps, limiter=limiter)
    assert occupancy(SM_90A, threads=threads, registers=registers, shared_bytes=shared_bytes) == expected
