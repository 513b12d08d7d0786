"""How far from the card's limits everyone is, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from loomgen.bench.evidence import Run
from loomgen.bench.gpu import Ceilings
from loomgen.errors import LoomgenError

_DPI = 120


class NoPlotting(LoomgenError):
    """matplotlib is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One implementation on one row: operations per byte that must move, and TFLOP/s of GPU kernel time."""

    name: str
    row: str
    intensity: float
    tflops: float


def points(run: Run) -> list[Point]:
    return [
        Point(
            name=name,
            row=row.case.key,
            intensity=row.case.workload.flops(run.what) / row.case.workload.io_bytes(run.what),
            tflops=row.case.workload.flops(run.what) / times.kernel_ms.median / 1e9,
        )
        for row in run.rows
        for name, times in row.times.items()
    ]


def attainable_tflops(ceilings: Ceilings, intensity: float) -> float:
    """The roof above ``intensity`` FLOP per byte."""
    return min(ceilings.matmul_tflops, ceilings.copy_tb_per_s * intensity)


def draw_roofline(run: Run, path: Path) -> None:
    """Writes a PNG. Raises :class:`NoPlotting` without matplotlib, LoomgenError where nothing was timed."""
    found = points(run)
    if run.ceilings is None or not found:
        raise LoomgenError("no roofline: nothing was timed")
    try:
        module = import_module("matplotlib.figure")
    except ImportError as error:
        raise NoPlotting("no roofline: matplotlib is not installed") from error
    figure = module.Figure(figsize=(8, 5), layout="constrained")
    _draw(figure.add_subplot(), found, run.ceilings, run.card.name)
    figure.savefig(path, dpi=_DPI)


def _draw(axes: Any, found: Sequence[Point], ceilings: Ceilings, card: str) -> None:
    ridge = ceilings.matmul_tflops / ceilings.copy_tb_per_s
    intensities = [point.intensity for point in found]
    span = sorted((min(*intensities, ridge) / 2, ridge, max(*intensities, ridge) * 2))
    axes.plot(span, [attainable_tflops(ceilings, x) for x in span], color="black", label="roof")
    for name in dict.fromkeys(point.name for point in found):
        mine = [point for point in found if point.name == name]
        axes.scatter([point.intensity for point in mine], [point.tflops for point in mine], s=18, label=name)
    axes.set(xscale="log", yscale="log", xlabel="FLOP per byte that must move", ylabel="TFLOP/s of GPU kernel time")
    axes.set_title(card)
    axes.legend()
